import type { UIMessage } from 'ai';
import { messageTokens } from '../../agent/compaction/tokens.ts';
import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { planCompaction, type SizedMessage } from '../../domain/compaction-plan.ts';
import { type CompactionSettings, usableTokens } from '../../domain/compaction.ts';
import { planPrune, type SeenOutput } from '../../domain/plan-prune.ts';
import { type ViewByHand, viewByHand } from '../../store/compaction.ts';
import { viewMessages } from '../../store/view-messages.ts';
import type { ActivityContext } from '../activity-context.ts';
import { shownMessages } from '../prompt/step-prompt.ts';
import { withAttachments } from '../prompt/with-attachments.ts';
import { seenOutputs } from './window.ts';

/** How long reading attachments may take: the command waits for it. */
const READING_MS = 5_000;

type Name = 'compact' | 'prune';

/** What the rows get with a command to compact or prune: whether its run would find `nothing` to do, as of the newest run. */
export async function judgedByHand(
  context: ActivityContext,
  name: Name,
  sessionId: string,
): Promise<{ newest_run: number | null; nothing?: boolean }> {
  const found = await viewByHand(context.db, sessionId);
  if (found === undefined) return { newest_run: null };
  const { newest_run } = found;
  try {
    return { newest_run, nothing: !(await hasWork(context, name, { ...found, sessionId })) };
  } catch (err) {
    // The run says what is missing: an agent, a model or attachments.
    context.log.warn({ err, session: sessionId, command: name }, 'it is not known whether there is anything to do');
    return { newest_run };
  }
}

async function hasWork(
  context: ActivityContext,
  name: Name,
  { sessionId, agent: id, model: ref, view }: ViewByHand & { sessionId: string },
): Promise<boolean> {
  const agent = context.agents.get(id);
  const settings = compactionOf(agent);
  const messages = shownMessages(view);
  if (await canPrune(messages, agent, settings)) return true;
  if (name === 'prune') return false;
  const stored = viewMessages(view);
  const model = context.models.resolve(ref ?? agent.model ?? context.models.defaultRef);
  const usable = usableTokens(model, settings);
  const isPlanned = (sizes: readonly SizedMessage[]) => planCompaction(sizes, null, usable, settings) !== undefined;
  const seen = new Map(messages.map((message) => [message.id, message.parts.length]));
  // More turns than those that stay, whatever their size.
  if (isPlanned(stored.map(({ id: message, role }) => ({ id: message, role, tokens: seen.get(message) ?? 0 }))))
    return true;
  const reading = { context, sessionId, signal: AbortSignal.timeout(READING_MS) };
  const shown = new Map((await withAttachments(reading, messages)).map((message) => [message.id, message]));
  const sizes: SizedMessage[] = [];
  for (const { id: message, role } of stored) {
    sizes.push({ id: message, role, tokens: await tokensUpTo(usable, shown.get(message)?.parts ?? []) });
  }
  return isPlanned(sizes);
}

/** Whether a prune would find an output. Counts the newest ones, and no more than it has to. */
async function canPrune(messages: readonly UIMessage[], agent: AgentDefinition, settings: CompactionSettings) {
  const outputs: SeenOutput[] = [];
  for (const message of messages.toReversed()) {
    for (const part of message.parts.toReversed()) {
      const seen = await seenOutputs([{ ...message, parts: [part] }], null, agent);
      outputs.unshift(...seen);
      if (seen.length > 0 && planPrune(outputs, Infinity, settings).length > 0) return true;
    }
  }
  return false;
}

/** The tokens of a message; no more of its parts are counted once there are more than `most`. */
async function tokensUpTo(most: number, parts: UIMessage['parts']): Promise<number> {
  const alone = await messageTokens([{ parts: [] }]);
  let tokens = parts.length > 0 ? alone : 0;
  for (const part of parts) {
    if (tokens > most) break;
    tokens += (await messageTokens([{ parts: [part] }])) - alone;
  }
  return tokens;
}
