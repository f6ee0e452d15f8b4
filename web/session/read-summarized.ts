import type { UIMessage } from 'ai';
import { summaryOf } from '../../domain/compaction.ts';
import type { ListPart, SessionApi } from '../api/api.ts';
import { hasContent } from '../transcript/transcript.ts';

/**
 * The messages that a summary has hidden, oldest first. The first may be an earlier summary, which stands for those before it.
 *
 * @param onRead is told how many have been read so far
 * @param closed ends the reading after a page
 * @throws as the routes of a session
 */
export async function readSummarized(
  api: SessionApi,
  summaryId: string,
  onRead: (read: number) => void,
  closed: AbortSignal,
): Promise<UIMessage[]> {
  const found: UIMessage[] = [];
  let before: string | null = summaryId;
  while (before !== null) {
    const { items, next }: ListPart<UIMessage> = await api.hidden(before);
    const hidden = items.filter((message) => hiddenBy(message) === summaryId && hasContent(message));
    found.unshift(...hidden);
    onRead(found.length);
    before = hidden.some(({ parts }) => summaryOf(parts) !== undefined) ? null : next;
    if (before !== null) closed.throwIfAborted();
  }
  return found;
}

function hiddenBy({ metadata }: UIMessage): string | undefined {
  return (metadata as { hidden_by?: { id: string } } | undefined)?.hidden_by?.id;
}
