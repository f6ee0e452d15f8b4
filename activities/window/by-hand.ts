import { getToolName, type UIMessage } from 'ai';
import { countTokens, messageTokens, outcomeText } from '../../agent/compaction/tokens.ts';
import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { whenAborted } from '../../agent/stop-signal.ts';
import { planCompaction, type SizedMessage } from '../../domain/compaction-plan.ts';
import { usableTokens } from '../../domain/compaction.ts';
import { type ViewByHand, viewByHand } from '../../store/compaction.ts';
import { viewMessages } from '../../store/view-messages.ts';
import type { ActivityContext } from '../activity-context.ts';
import { shownMessages } from '../prompt/step-prompt.ts';
import { withAttachments } from '../prompt/with-attachments.ts';
import { protectedTools } from './window.ts';

/** How long judging may take. With a statement it is less than the 10 s of the local activity, for which the session waits. */
const JUDGING_MS = 4_000;

type Name = 'compact' | 'prune';

/**
 * What the rows get with a command to compact or prune: whether its run would find `nothing` to do, as of the newest run.
 * Without that the run finds out.
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
  if (name === 'prune') return canPrune(messages, agent, signal);
  const settings = compactionOf(agent);
  const stored = viewMessages(view);
  const model = context.models.resolve(ref ?? agent.model ?? context.models.defaultRef);
  const usable = usableTokens(model, settings);
  const isPlanned = (sizes: readonly SizedMessage[]) => planCompaction(sizes, null, usable, settings) !== undefined;
  const seen = new Map(messages.map((message) => [message.id, message.parts.length]));
  // More turns than those that stay, whatever their size.
  if (isPlanned(stored.map(({ id: message, role }) => ({ id: message, role, tokens: seen.get(message) ?? 0 }))))
    return true;
  if (await canPrune(messages, agent, signal)) return true;
  const reading = { context, sessionId, signal };
  const shown = new Map((await withAttachments(reading, messages)).map((message) => [message.id, message]));
  const sizes: SizedMessage[] = [];
  for (const { id: message, role } of stored) {
    sizes.push({ id: message, role, tokens: await tokensUpTo(usable, shown.get(message)?.parts ?? [], signal) });
  }
  return isPlanned(sizes);
}

/** Whether `planPrune` would find an output. Counts the newest ones, of each no more than it takes to know that it is large. */
async function canPrune(messages: readonly UIMessage[], agent: AgentDefinition, signal: AbortSignal): Promise<boolean> {
  const { prune_min_tokens: min, prune_keep: keep } = compactionOf(agent);
  const spared = protectedTools(agent);
  let large = 0;
  for (const part of messages.flatMap(({ parts }) => parts).toReversed()) {
    if (!('toolCallId' in part) || part.state !== 'output-available' || spared.has(getToolName(part))) continue;
    signal.throwIfAborted();
    if ((await countTokens(outcomeText(part), min)) >= min) large += 1;
    if (large > keep) return true;
  }
  return false;
}

/** The tokens of a message; no more of its parts are counted once there are more than `most`. */
async function tokensUpTo(most: number, parts: UIMessage['parts'], signal: AbortSignal): Promise<number> {
  const alone = await messageTokens([{ parts: [] }]);
  let tokens = parts.length > 0 ? alone : 0;
  for (const part of parts) {
    if (tokens > most) break;
    signal.throwIfAborted();
    tokens += (await messageTokens([{ parts: [part] }])) - alone;
  }
  return tokens;
}
