// The actions of a scripted model.

/** Tokens as a provider reports them: output includes reasoning, input includes cache reads and writes. */
export type ReportedUsage = {
  input: number;
  output: number;
  reasoning?: number;
  cached?: number;
  cacheWritten?: number;
};

/** The last one is of a provider that has too little memory or time. */
export type FinishReason = 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'insufficient_system_resource';

export type ModelAction =
  | { do: 'text'; text: string }
  | { do: 'reasoning'; text: string }
  | { do: 'tool'; id: string; name: string; pieces: string[] }
  | { do: 'usage'; usage: ReportedUsage }
  | { do: 'finish'; reason: FinishReason }
  | { do: 'fail'; status: number; headers: Record<string, string>; code: string; message: string }
  | { do: 'raw'; text: string }
  | { do: 'cut' }
  | { do: 'hang' };

/** One delta of text. */
export const say = (text: string): ModelAction => ({ do: 'text', text });

/** Text in deltas of `size` characters. */
export function saySlowly(text: string, size = 8): ModelAction[] {
  return slices(text, size).map(say);
}

/** One delta of reasoning. */
export const think = (text: string): ModelAction => ({ do: 'reasoning', text });

/** A tool call; its arguments are sent in pieces of `size` characters. The id is the provider's, and may repeat. */
export function callTool(id: string, name: string, input: unknown, size = 12): ModelAction {
  const json = typeof input === 'string' ? input : JSON.stringify(input);
  return { do: 'tool', id, name, pieces: slices(json, size) };
}

/** The usage that the provider reports at the end; by default one input token, and one output token per delta. */
export const report = (usage: ReportedUsage): ModelAction => ({ do: 'usage', usage });

/** Ends the answer with this finish reason; by default it follows from what was sent. */
export const finish = (reason: FinishReason): ModelAction => ({ do: 'finish', reason });

/** Answers with an HTTP error; only as a script's first action. */
export function fail(
  status: number,
  options: { retryAfter?: number; code?: string; message?: string; requestId?: string } = {},
): ModelAction {
  const headers: Record<string, string> = {
    ...(options.retryAfter !== undefined && { 'retry-after': `${options.retryAfter}` }),
    ...(options.requestId !== undefined && { 'x-request-id': options.requestId }),
  };
  return {
    do: 'fail',
    status,
    headers,
    code: options.code ?? 'scripted',
    message: options.message ?? `status ${status}`,
  };
}

/** The provider's error for a request larger than the context window. */
export const failContextLength = (): ModelAction =>
  fail(400, { code: 'context_length_exceeded', message: "This model's maximum context length is exceeded" });

/** Sends something in mid-stream that is not a chunk: an error, or invalid data. */
export const raw = (text: string): ModelAction => ({ do: 'raw', text });

/** Cuts the connection in mid-stream. */
export const cut = (): ModelAction => ({ do: 'cut' });

/** Sends nothing more until the client disconnects. */
export const hang = (): ModelAction => ({ do: 'hang' });

function slices(text: string, size: number): string[] {
  if (text.length <= size) return [text];
  const characters = Array.from(text);
  const parts: string[] = [];
  for (let at = 0; at < characters.length; at += size) parts.push(characters.slice(at, at + size).join(''));
  return parts;
}
