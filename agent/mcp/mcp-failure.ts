import { BrokenAnswerError, TooLargeAnswerError } from './fetch-watched.ts';

/**
 * How a call failed. `answered`: by the server, or it took too long. `unsent`: the server never got it. `lost`: the server may
 * have carried it out.
 */
export type McpFailure = { kind: 'answered'; message: string } | { kind: 'unsent' | 'lost' };

/** JSON-RPC codes that the SDK gives its own errors. */
const REQUEST_TIMEOUT = -32_001;
const CONNECTION_CLOSED = -32_000;

/** Codes of connections that were never made. */
const NOT_CONNECTED = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'],
]);

/**
 * Judges an error of a call.
 * @param isClosed the connection is closed or lost
 */
export function mcpFailure(
  error: unknown,
  { isClosed, timeoutMs }: { isClosed: boolean; timeoutMs: number },
): McpFailure {
  if (error instanceof BrokenAnswerError) return { kind: 'lost' };
  if (error instanceof TooLargeAnswerError) return { kind: 'answered', message: `answered with ${error.message}` };
  const { name, message, code, cause } = error as { name?: string; message?: string; code?: unknown; cause?: unknown };
  if (name === 'McpError') {
    if (code === REQUEST_TIMEOUT && message?.endsWith('Request timed out'))
      return { kind: 'answered', message: `did not answer within ${timeoutMs} ms` };
    if (code === CONNECTION_CLOSED && isClosed) return { kind: 'lost' };
    return { kind: 'answered', message: `answered with an error: ${message}` };
  }
  // An answer over HTTP: the server has forgotten the session, such as after a restart.
  if (code === 404) return { kind: 'unsent' };
  if (typeof code === 'number' && code >= 400 && code < 500)
    return { kind: 'answered', message: `refused the request with status ${code}` };
  if (message === 'Not connected' || NOT_CONNECTED.has(String((cause as { code?: unknown } | undefined)?.code)))
    return { kind: 'unsent' };
  return { kind: 'lost' };
}
