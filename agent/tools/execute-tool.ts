import type { PermissionRequest } from '../../domain/permissions.ts';
import { byteLength, cleanJsonText, cleanText, headOf, type Json } from '../../domain/text.ts';
import { PAGE_MS, type Raise, type ToolContext, type ToolDefinition } from '../definition/define.ts';
import type { Issue } from '../definition/json-schema.ts';
import { parseToolInput } from '../definition/tool-json-schema.ts';
import { whenAborted } from '../stop-signal.ts';

/**
 * How a tool call ended. Of an output above the limit, `output` is the beginning with a note, and `aside` the whole as text.
 */
export type ToolResult = { ok: true; output: Json; aside?: string } | { ok: false; errorText: string };

/** Maximum length of a tool's error text, in UTF-16 units. */
const MAX_ERROR_TEXT = 4_000;

/** What a call requires of the session before it runs. `input` is the model's, parsed by the schema. */
export type ToolPlan =
  | {
      ok: true;
      input: unknown;
      raise: Raise | null;
      project: 'new' | 'required' | null;
      permission: PermissionRequest;
      /** How long the call waits for the page that carries it out, in milliseconds; null: the worker does. */
      pageMs: number | null;
    }
  | { ok: false; errorText: string };

export function failedWith(errorText: string): ToolResult {
  return { ok: false, errorText };
}

/** The tool error for a call that needs a project in a session without one. */
export const NO_PROJECT_TEXT =
  'This session has no project yet. Ask the user whether to make a new one or to open an existing one.';

/** Parses a call's input, and asks the tool which transition and which project the call needs. Runs nothing. */
export async function planTool(tool: ToolDefinition, input: unknown): Promise<ToolPlan> {
  const parsed = await parseToolInput(tool, input);
  if (!parsed.ok) return { ok: false, errorText: inputErrorText(tool.name, parsed.issues) };
  try {
    const raise = typeof tool.raises === 'function' ? tool.raises(parsed.input) : (tool.raises ?? null);
    const project = tool.project?.(parsed.input) ?? null;
    if (project === 'new' && raise === null) throw new Error('project: "new" requires an event in raises');
    const permission = { permission: tool.name, pattern: requestOf(tool, parsed.input) };
    const pageMs = tool.execute === undefined ? (tool.timeout ?? PAGE_MS) : null;
    return { ok: true, input: parsed.input, raise, project, permission, pageMs };
  } catch (error) {
    return { ok: false, errorText: errorTextOf(error) };
  }
}

/** What a call asks permission for. @throws {Error} the tool returned no text */
function requestOf(tool: ToolDefinition, input: unknown): string {
  const request: unknown = tool.permission?.(input) ?? '';
  if (typeof request !== 'string') throw new Error(`permission(input) of "${tool.name}" returned no text`);
  return cleanText(request);
}

/** The outcome of a call that a page has carried out. `given` undefined or late: it did not in time. */
export async function pageResult(
  tool: ToolDefinition,
  given: { output: Json } | { error: string } | { late: true } | undefined,
  maxOutputBytes: number,
): Promise<ToolResult> {
  if (given === undefined || 'late' in given) {
    return failedWith('The page of the user did not carry out this call in time.');
  }
  if ('error' in given) return failedWith(cap(cleanText(given.error)) || 'the page failed without saying why');
  const parsed = tool.output === undefined ? undefined : await parseToolInput({ input: tool.output }, given.output);
  if (parsed?.ok === false) {
    return failedWith(
      cap(`The page returned something else than "${tool.name}" promises: ${problemsOf(parsed.issues)}`),
    );
  }
  return resultOf(parsed === undefined ? given.output : parsed.input, maxOutputBytes);
}

/**
 * Runs a tool on its parsed input.
 *
 * @returns its outcome; what the tool throws is an error that the model sees
 * @throws the signal's reason when the run was aborted
 */
export async function executeTool(
  tool: Required<Pick<ToolDefinition, 'execute'>>,
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

/** The tool error for an input that does not match the schema. */
export function inputErrorText(name: string, issues: readonly Issue[]): string {
  return cap(`The input of "${name}" is not right: ${problemsOf(issues)}. Correct it and call the tool again.`);
}

function problemsOf(issues: readonly Issue[]): string {
  return issues
    .map(({ path, message }) => (path.length > 0 ? `${path.map(String).join('.')}: ${message}` : message))
    .join('; ');
}

/** The message of anything thrown, cleaned and capped; never a stack. */
function errorTextOf(error: unknown): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return cap(cleanText(message) || 'the tool failed without saying why');
}

/** A tool's output as its result: cleaned, and cut at the limit. */
export function resultOf(output: unknown, maxBytes: number): ToolResult {
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
