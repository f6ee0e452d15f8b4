import type { CompactionData } from '../../domain/compaction.ts';
import type { EventRow, PartRow } from './evidence.ts';

/** A stored summary. */
export interface Summary {
  session: string;
  /** Id of its message. */
  message: string;
  data: CompactionData;
  /** Number of the last summarizer's call in its text; -1: none. */
  call: number;
}

/** The summaries among parts. */
export function summariesOf(parts: readonly PartRow[]): Summary[] {
  return parts
    .filter(({ data }) => data.type === 'data-compaction')
    .map(({ session_id: session, message_id: message, data: part }) => {
      const data = part['data'] as CompactionData;
      return { session, message, data, call: Number(/summary-(\d+)\./.exec(data.summary)?.[1] ?? -1) };
    });
}

/** Whether an event is that of a stored compaction or prune, not that of a command that asked for one. */
export function isStored({ kind, data }: EventRow, message?: string): boolean {
  const is = (kind === 'compaction' || kind === 'prune') && !('outcome' in data);
  return is && (message === undefined || data['message_id'] === message);
}
