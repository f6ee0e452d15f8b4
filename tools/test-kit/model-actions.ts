// What a scripted model does, in the order of its script.

/** Tokens as a provider reports them: reasoning is part of output; cached and written to the cache are part of input. */
export type ReportedUsage = {
  input: number;
  output: number;
  reasoning?: number;
  cached?: number;
  cacheWritten?: number;
};

export type FinishReason = 'stop' | 'tool_calls' | 'length' | 'content_filter';

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

/** A tool call; its arguments come in pieces of `size` characters. The id is the provider's, and may repeat. */
export function callTool(id: string, name: string, input: unknown, size = 12): ModelAction {
  const json = typeof input === 'string' ? input : JSON.stringify(input);
  return { do: 'tool', id, name, pieces: slices(json, size) };
}

/** What the provider reports at the end; without it, one token in and one out for each delta. */
export const report = (usage: ReportedUsage): ModelAction => ({ do: 'usage', usage });

/** Ends the answer with this reason; without it the reason follows from what was sent. */
export const finish = (reason: FinishReason): ModelAction => ({ do: 'finish', reason });

/** Answers with an HTTP error; only as a script's first action. */
export function fail(
  status: number,
  options: { retryAfter?: number; code?: string; message?: string } = {},
): ModelAction {
  const headers: Record<string, string> =
    options.retryAfter === undefined ? {} : { 'retry-after': `${options.retryAfter}` };
  return {
    do: 'fail',
    status,
    headers,
    code: options.code ?? 'scripted',
    message: options.message ?? `status ${status}`,
  };
}

/** The provider's answer to a request that is larger than its window. */
export const failContextLength = (): ModelAction =>
  fail(400, { code: 'context_length_exceeded', message: "This model's maximum context length is exceeded" });

/** Something in mid-stream that is no chunk: an error, or nothing that anybody could read. */
export const raw = (text: string): ModelAction => ({ do: 'raw', text });

/** Cuts the connection in mid-stream. */
export const cut = (): ModelAction => ({ do: 'cut' });

/** Says nothing more, until the client goes away. */
export const hang = (): ModelAction => ({ do: 'hang' });

function slices(text: string, size: number): string[] {
  const characters = Array.from(text);
  const parts: string[] = [];
  for (let at = 0; at < characters.length; at += size) parts.push(characters.slice(at, at + size).join(''));
  return parts;
}
