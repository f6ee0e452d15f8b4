import { messageTokens } from '../../agent/compaction/tokens.ts';
import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import { whenAborted } from '../../agent/stop-signal.ts';
import { planCompaction, type SizedMessage } from '../../domain/compaction-plan.ts';
import { usableTokens } from '../../domain/compaction.ts';
import { type ViewByHand, viewByHand } from '../../store/compaction.ts';
import { viewMessages } from '../../store/view-messages.ts';
import type { ActivityContext } from '../activity-context.ts';
import { shownMessages } from '../prompt/step-prompt.ts';
import { withAttachments } from '../prompt/with-attachments.ts';
import { canPrune } from './window.ts';

/** How long judging may take: the local activity has 10 s for it and the command's statement, and the session waits. */
const JUDGING_MS = 4_000;

type Name = 'compact' | 'prune';

/**
 * What a command to compact or prune gets besides its arguments: whether its run would find `nothing` to do, and the newest run when
 * that was judged (null: one was open). Without `nothing` the command is accepted, and its run finds out.
 */
export async function judgedByHand(
  context: ActivityContext,
  name: Name,
  sessionId: string,
): Promise<{ newest_run?: number | null; nothing?: boolean }> {
  const signal = AbortSignal.timeout(JUDGING_MS);
  const inTime = <T>(work: Promise<T>) => Promise.race([work, whenAborted(signal)]);
  const judged: { newest_run?: number } = {};
  try {
    const found = await inTime(viewByHand(context.db, sessionId));
    if (found === undefined) return { newest_run: null };
    judged.newest_run = found.newest_run;
    return { ...judged, nothing: !(await inTime(hasWork(context, name, { ...found, sessionId, signal }))) };
  } catch (err) {
    // The run says what is missing: an agent, a model, attachments or time.
    context.log.warn({ err, session: sessionId, command: name }, 'it is not known whether there is anything to do');
    return judged;
  }
}

async function hasWork(
  context: ActivityContext,
  name: Name,
  { sessionId, agent: id, model: ref, view, signal }: ViewByHand & { sessionId: string; signal: AbortSignal },
): Promise<boolean> {
  const agent = context.agents.get(id);
  const messages = shownMessages(view);
  if (name === 'prune') return canPrune(messages, null, agent, signal);
  const settings = compactionOf(agent);
  const stored = viewMessages(view);
  const model = context.models.resolve(ref ?? agent.model ?? context.models.defaultRef);
  const usable = usableTokens(model, settings);
  const isPlanned = (sizes: readonly SizedMessage[]) => planCompaction(sizes, null, usable, settings) !== undefined;
  const seen = new Set(messages.map((message) => message.id));
  // More turns than those that stay, whatever their size.
  if (isPlanned(stored.map(({ id: message, role }) => ({ id: message, role, tokens: seen.has(message) ? 1 : 0 }))))
    return true;
  if (await canPrune(messages, null, agent, signal)) return true;
  const reading = { context, sessionId, signal };
  const shown = new Map((await withAttachments(reading, messages)).map((message) => [message.id, message]));
  const sizes: SizedMessage[] = [];
  for (const { id: message, role } of stored) {
    signal.throwIfAborted();
    const found = shown.get(message);
    sizes.push({ id: message, role, tokens: found ? await messageTokens([found], usable + 1) : 0 });
  }
  return isPlanned(sizes);
}
