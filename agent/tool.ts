import { byteLength, cleanJsonText, cleanText, headOf, type Json } from '../domain/text.ts';
import type { Raise, ToolContext, ToolDefinition } from './define.ts';

/**
 * How a tool call ended. `aside` is there when the output was larger than the limit: it is the whole of it as text, and
 * `output` is then its beginning and a note that names what was set aside.
 */
export type ToolResult = { ok: true; output: Json; aside?: string } | { ok: false; errorText: string };

/** Longest error text that the model gets of a tool, in UTF-16 units. */
const MAX_ERROR_TEXT = 4_000;

/** What a call asks of the session before it may run. `input` is what the schema made of the model's. */
export type ToolPlan =
  | { ok: true; input: unknown; raise: Raise | null; project: 'new' | 'required' | null }
  | { ok: false; errorText: string };

/** An outcome that is an error. */
export function failedWith(errorText: string): ToolResult {
  return { ok: false, errorText };
}

/** What the model is told when a call needs a project and the session has none. */
export const NO_PROJECT_TEXT =
  'This session has no project yet. Ask the user whether to make a new one or to open an existing one.';

/** Reads a call: checks its input, and asks the tool which transition and which project it is about. Runs nothing. */
export async function planTool(tool: ToolDefinition, input: unknown): Promise<ToolPlan> {
  const parsed = await tool.input.safeParseAsync(input);
  if (!parsed.success) return { ok: false, errorText: inputErrorText(tool.name, parsed.error.issues) };
  try {
    const raise = typeof tool.raises === 'function' ? tool.raises(parsed.data) : (tool.raises ?? null);
    return { ok: true, input: parsed.data, raise, project: tool.project?.(parsed.data) ?? null };
  } catch (error) {
    return { ok: false, errorText: errorTextOf(error) };
  }
}

/**
 * Runs a tool on the input as the model gave it.
 *
 * @returns an outcome in any case but an abort: bad input and what the tool throws are errors that the model sees
 * @throws the signal's reason when the run was aborted
 */
export async function executeTool(
  tool: ToolDefinition,
  input: unknown,
  ctx: ToolContext,
  options: { maxOutputBytes: number },
): Promise<ToolResult> {
  ctx.signal.throwIfAborted();
  const parsed = await tool.input.safeParseAsync(input);
  if (!parsed.success) return { ok: false, errorText: inputErrorText(tool.name, parsed.error.issues) };
  try {
    // A tool that does not look at its signal must not hold the run: what it does after an abort reaches nothing.
    const output = await Promise.race([tool.execute(parsed.data, ctx), whenAborted(ctx.signal)]);
    ctx.signal.throwIfAborted();
    return outcomeOf(output, options.maxOutputBytes);
  } catch (error) {
    ctx.signal.throwIfAborted();
    return { ok: false, errorText: errorTextOf(error) };
  }
}

function whenAborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  return promise;
}

/** What the model is told of an input that the tool's schema refuses. */
export function inputErrorText(
  name: string,
  issues: readonly { path: readonly PropertyKey[]; message: string }[],
): string {
  const problems = issues.map(({ path, message }) =>
    path.length > 0 ? `${path.map(String).join('.')}: ${message}` : message,
  );
  return cap(`The input of "${name}" is not right: ${problems.join('; ')}. Correct it and call the tool again.`);
}

/** The message of anything thrown, cleaned and capped; never a stack. */
function errorTextOf(error: unknown): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return cap(cleanText(message) || 'the tool failed without saying why');
}

function outcomeOf(output: unknown, maxBytes: number): ToolResult {
  const json = cleanJsonText(JSON.stringify(output) ?? 'null');
  if (byteLength(json) <= maxBytes) return { ok: true, output: JSON.parse(json) as Json };
  // A long text is cut as it reads, not as JSON spells it: its line breaks stay line breaks.
  const value = JSON.parse(json) as Json;
  const whole = typeof value === 'string' ? value : json;
  const bytes = byteLength(whole);
  const note = `\n[The output is ${bytes} bytes long; what comes after the first ${maxBytes} was set aside.]`;
  return { ok: true, output: headOf(whole, maxBytes) + note, aside: whole };
}

function cap(text: string): string {
  return text.length <= MAX_ERROR_TEXT ? text : `${cleanText(text.slice(0, MAX_ERROR_TEXT))} […]`;
}
