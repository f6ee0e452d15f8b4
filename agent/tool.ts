import { byteLength, cleanJsonText, cleanText, headOf, type Json } from '../domain/text.ts';
import type { Raise, ToolContext, ToolDefinition } from './define.ts';

/**
 * How a tool call ended. Of an output above the limit, `output` is the beginning with a note, and `aside` the whole as text.
 */
export type ToolResult = { ok: true; output: Json; aside?: string } | { ok: false; errorText: string };

/** Maximum length of a tool's error text, in UTF-16 units. */
const MAX_ERROR_TEXT = 4_000;

/** What a call requires of the session before it runs. `input` is the model's, parsed by the schema. */
export type ToolPlan =
  | { ok: true; input: unknown; raise: Raise | null; project: 'new' | 'required' | null }
  | { ok: false; errorText: string };

export function failedWith(errorText: string): ToolResult {
  return { ok: false, errorText };
}

/** The tool error for a call that needs a project in a session without one. */
export const NO_PROJECT_TEXT =
  'This session has no project yet. Ask the user whether to make a new one or to open an existing one.';

/** Parses a call's input, and asks the tool which transition and which project the call needs. Runs nothing. */
export async function planTool(tool: ToolDefinition, input: unknown): Promise<ToolPlan> {
  const parsed = await tool.input.safeParseAsync(input);
  if (!parsed.success) return { ok: false, errorText: inputErrorText(tool.name, parsed.error.issues) };
  try {
    const raise = typeof tool.raises === 'function' ? tool.raises(parsed.data) : (tool.raises ?? null);
    const project = tool.project?.(parsed.data) ?? null;
    if (project === 'new' && raise === null) throw new Error('project: "new" requires an event in raises');
    return { ok: true, input: parsed.data, raise, project };
  } catch (error) {
    return { ok: false, errorText: errorTextOf(error) };
  }
}

/**
 * Runs a tool on its parsed input.
 *
 * @returns its outcome; what the tool throws is an error that the model sees
 * @throws the signal's reason when the run was aborted
 */
export async function executeTool(
  tool: ToolDefinition,
  input: unknown,
  ctx: ToolContext,
  options: { maxOutputBytes: number },
): Promise<ToolResult> {
  ctx.signal.throwIfAborted();
  try {
    // A tool that ignores its signal must not delay the end of the run: what it does after an abort has no effect.
    const output = await Promise.race([tool.execute(input, ctx), whenAborted(ctx.signal)]);
    ctx.signal.throwIfAborted();
    return resultOf(output, options.maxOutputBytes);
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

/** The tool error for an input that does not match the schema. */
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

function resultOf(output: unknown, maxBytes: number): ToolResult {
  const json = cleanJsonText(JSON.stringify(output) ?? 'null');
  if (byteLength(json) <= maxBytes) return { ok: true, output: JSON.parse(json) as Json };
  // A text is cut as text, not as JSON, so that its line breaks stay line breaks.
  const value = JSON.parse(json) as Json;
  const whole = typeof value === 'string' ? value : json;
  const bytes = byteLength(whole);
  const note = `\n[The output is ${bytes} bytes long; what comes after the first ${maxBytes} was set aside.]`;
  return { ok: true, output: headOf(whole, maxBytes) + note, aside: whole };
}

function cap(text: string): string {
  return text.length <= MAX_ERROR_TEXT ? text : `${cleanText(text.slice(0, MAX_ERROR_TEXT))} […]`;
}
