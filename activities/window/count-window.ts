import { setTimeout as delay } from 'node:timers/promises';
import { systemText } from '../../agent/prompt/assemble-prompt.ts';
import { keepCount, windowToCount } from '../../store/compaction.ts';
import type { ActivityContext } from '../activity-context.ts';
import { shownMessages } from '../prompt/step-prompt.ts';
import { withAttachments } from '../prompt/with-attachments.ts';
import { windowInUse } from './window.ts';

/** How long a command or a compaction waits for a count, which goes on. */
const WAIT_MS = 2_000;
/** How long reading attachments may take. */
const READING_MS = 10_000;

/**
 * For readers, counts the tokens of a conversation that has changed, unless a step has reported them since. A failure only leaves
 * them unknown until the next step.
 */
export async function countWindow(context: ActivityContext, sessionId: string): Promise<void> {
  await Promise.race([count(context, sessionId), delay(WAIT_MS, undefined, { ref: false })]);
}

async function count(context: ActivityContext, sessionId: string): Promise<void> {
  try {
    const found = await windowToCount(context.db, sessionId);
    if (found === undefined) return;
    const { view, sections, event_seq: eventSeq } = found;
    const reading = { context, sessionId, signal: AbortSignal.timeout(READING_MS) };
    const messages = await withAttachments(reading, shownMessages(view));
    const [system, tools] = [systemText(sections ?? []), sections?.[4] ?? ''];
    const tokens = await windowInUse({ system, tools, messages }, null, 0);
    if (tokens !== undefined) await keepCount(context.db, sessionId, { eventSeq, tokens });
  } catch (err) {
    context.log.warn({ err, session: sessionId }, 'the tokens of a conversation were not counted');
  }
}
