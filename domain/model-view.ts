import { type PruneData, prunedStub, shownSummary, summaryOf } from './compaction.ts';
import { REFUSED_MESSAGE, refusedMessages, withoutRefused } from './refusals.ts';

/** A part of an AI SDK UIMessage: the fields that are read here. */
interface StoredPart {
  type: string;
}

interface ToolPart extends StoredPart {
  toolCallId: string;
  state: string;
  input?: unknown;
  errorText?: string;
  approval?: { approved?: boolean; reason?: string; isAutomatic?: boolean };
  preliminary?: boolean;
}

interface StoredMessage<Part extends StoredPart> {
  id: string;
  role: string;
  parts: Part[];
}

/** The outcome that the model sees for a call without one. */
const ABORTED_TOOL_TEXT = 'aborted by the user';
const INTERRUPTED_TOOL_TEXT = 'interrupted, outcome unknown';
/** What it sees of a user's message that has nothing but white space. */
const BLANK_MESSAGE = '[blank message]';

/**
 * What the model sees of stored messages. A pure function.
 *
 * - A `data-interrupted` part removes what the lost attempt wrote: everything back to and including the latest
 *   `step-start` before it (without one, everything before it), and itself.
 * - A summary (`data-compaction`) is shown as a message of the user, because some providers want one first. Of a turn that it
 *   splits, only the message and the final text are left.
 * - Outputs that a `data-prune` part names are replaced by a note of their size.
 * - Files of messages that a `data-refused` part names are replaced by a note: the provider refused a request with them. If its
 *   content filter refused the turn, a note stands in place of message and answer.
 * - Other `data-*` parts are for readers, not for the model.
 * - A tool call without an outcome gets an error: "aborted by the user" if `runStates` has the message as `aborted`, else
 *   "interrupted, outcome unknown"; a denied one says so. Inputs that are not objects become {}: providers refuse others.
 * - Blank texts, steps without text, file or tool call, and empty messages are removed, because providers refuse them. A user's
 *   message that is nothing but blank says so: an answer to it would be without a question.
 *
 * @param runStates the state of the run that wrote a message, by message id; messages that are missing were not aborted
 */
export function modelView<Part extends StoredPart, Message extends StoredMessage<Part>>(
  messages: readonly Message[],
  runStates?: ReadonlyMap<string, string>,
): Message[] {
  const pruned = prunedOutputs(messages);
  const refused = refusedMessages(messages);
  let isRefused = false;
  return split(messages).flatMap((message) => {
    const summary = summaryOf(message.parts);
    if (summary !== undefined) return [{ ...withText(message, shownSummary(summary.summary)), role: 'user' }];
    if (message.role === 'user') isRefused = refused.whole.has(message.id);
    if (isRefused) return message.role === 'user' ? [withText(message, REFUSED_MESSAGE)] : [];
    const missing = runStates?.get(message.id) === 'aborted' ? ABORTED_TOOL_TEXT : INTERRUPTED_TOOL_TEXT;
    const parts = stepsOf(withoutLostAttempts(message.parts).filter(isForTheModel))
      .filter((step) => step.some(isContent))
      .flat()
      .map((part) => (isToolPart(part) ? withOutput(withOutcome(part, missing), pruned) : part))
      .map((part) => (refused.files.has(message.id) ? withoutRefused(part) : part));
    if (parts.length > 0) return [{ ...message, parts }];
    return message.role === 'user' ? [withText(message, BLANK_MESSAGE)] : [];
  });
}

function withText<Message extends StoredMessage<StoredPart>>(message: Message, text: string): Message {
  return { ...message, parts: [{ type: 'text', text }] };
}

/** The messages with only the final text of the answers in a turn that a summary splits. */
function split<Part extends StoredPart, Message extends StoredMessage<Part>>(messages: readonly Message[]): Message[] {
  const summary = messages.map(({ parts }) => summaryOf(parts)).findLast((each) => each !== undefined);
  const first = summary?.split === true ? messages.findIndex(({ id }) => id === summary.tail_start_id) : -1;
  if (first < 0) return [...messages];
  const next = messages.findIndex(({ role }, at) => at > first && role === 'user');
  // The turn may be answered again, and then goes on.
  if (next < 0) return [...messages];
  const isSplit = (at: number) => at > first && at < next;
  return messages.map((message, at) => {
    if (!isSplit(at)) return message;
    const last = stepsOf(withoutLostAttempts(message.parts)).findLast((step) =>
      step.some(({ type }) => type === 'text'),
    );
    return { ...message, parts: (last ?? []).filter(({ type }) => type === 'text') };
  });
}

/** The sizes in tokens of pruned outputs, by tool call. */
function prunedOutputs(messages: readonly StoredMessage<StoredPart>[]): ReadonlyMap<string, number> {
  const prunes = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'data-prune'));
  const outputs = prunes.flatMap((part) => (part as unknown as { data: PruneData }).data.outputs);
  return new Map(outputs.map(({ tool_call_id, tokens }) => [tool_call_id, tokens]));
}

function withOutput<Part extends ToolPart>(part: Part, pruned: ReadonlyMap<string, number>): Part {
  const tokens = pruned.get(part.toolCallId);
  return tokens === undefined || part.state !== 'output-available' ? part : { ...part, output: prunedStub(tokens) };
}

/** The parts by step; those before the first `step-start` are one step. */
function stepsOf<Part extends StoredPart>(parts: readonly Part[]): Part[][] {
  const steps: Part[][] = [];
  for (const part of parts) {
    const current = steps.at(-1);
    if (current === undefined || isStepStart(part)) steps.push([part]);
    else current.push(part);
  }
  return steps;
}

function withoutLostAttempts<Part extends StoredPart>(parts: readonly Part[]): Part[] {
  const kept: Part[] = [];
  for (const part of parts) {
    if (part.type === 'data-interrupted') kept.length = Math.max(0, kept.findLastIndex(isStepStart));
    else kept.push(part);
  }
  return kept;
}

function isStepStart(part: StoredPart): boolean {
  return part.type === 'step-start';
}

function isForTheModel(part: StoredPart): boolean {
  if (part.type.startsWith('data-')) return false;
  return part.type !== 'text' || (part as { text?: string }).text?.trim() !== '';
}

function isContent(part: StoredPart): boolean {
  return part.type === 'text' || part.type === 'file' || part.type === 'steering-message' || isToolPart(part);
}

function isToolPart<Part extends StoredPart>(part: Part): part is Part & ToolPart {
  return part.type === 'dynamic-tool' || part.type.startsWith('tool-');
}

/** The part with an outcome, and without its approval, which the SDK would request again. */
function withOutcome<Part extends ToolPart>(part: Part, missing: string): Part {
  const { approval, ...rest } = part;
  const input = isObject(part.input) ? part.input : {};
  if (part.state === 'output-error') return { ...rest, input } as Part;
  if (part.state === 'output-available' && part.preliminary !== true) return { ...rest, input } as Part;
  const { output: _output, rawInput: _rawInput, ...call } = rest as Record<string, unknown>;
  const denied = part.state === 'output-denied' || approval?.approved === false;
  const errorText = denied ? deniedText(approval) : missing;
  return { ...call, state: 'output-error', input, errorText } as unknown as Part;
}

function deniedText({ reason, isAutomatic }: NonNullable<ToolPart['approval']> = {}): string {
  const what = isAutomatic === true ? 'this call is not allowed' : 'the user did not allow this call';
  return reason ? `${what}: ${reason}` : what;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
