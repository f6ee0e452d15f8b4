/** A part of an AI SDK UIMessage: the fields that are read here. */
interface StoredPart {
  type: string;
}

interface ToolPart extends StoredPart {
  toolCallId: string;
  state: string;
  input?: unknown;
  errorText?: string;
  approval?: { approved?: boolean; reason?: string };
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

/**
 * What the model sees of stored messages. A pure function.
 *
 * - A `data-interrupted` part removes what the lost attempt wrote: everything back to and including the latest
 *   `step-start` before it (without one, everything before it), and itself.
 * - `data-*` parts are for readers, not for the model.
 * - A tool call without an outcome gets an error: "aborted by the user" if `runStates` has the message as `aborted`, else
 *   "interrupted, outcome unknown"; a denied one says so. Inputs that are not objects become {}: providers refuse others.
 * - Empty texts, steps without text, file or tool call, and empty messages are removed, because providers refuse them.
 *
 * @param runStates the state of the run that wrote a message, by message id; messages that are missing were not aborted
 */
export function modelView<Part extends StoredPart, Message extends StoredMessage<Part>>(
  messages: readonly Message[],
  runStates?: ReadonlyMap<string, string>,
): Message[] {
  return messages.flatMap((message) => {
    const missing = runStates?.get(message.id) === 'aborted' ? ABORTED_TOOL_TEXT : INTERRUPTED_TOOL_TEXT;
    const parts = stepsOf(withoutLostAttempts(message.parts).filter(isForTheModel))
      .filter((step) => step.some(isContent))
      .flat()
      .map((part) => (isToolPart(part) ? withOutcome(part, missing) : part));
    return parts.length > 0 ? [{ ...message, parts }] : [];
  });
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
  return part.type !== 'text' || (part as { text?: string }).text !== '';
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
  const errorText = denied ? deniedText(approval?.reason) : missing;
  return { ...call, state: 'output-error', input, errorText } as unknown as Part;
}

function deniedText(reason: string | undefined): string {
  return reason ? `the user did not allow this call: ${reason}` : 'the user did not allow this call';
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
