import type { Problem } from '../../client/chat.ts';
import { PerdureError } from '../../domain/errors.ts';
import type { RequestContext } from '../context.ts';
import { problemOfError } from '../http/problem.ts';
import { namedEvent } from '../streams/event-stream.ts';

const EXPIRED = new PerdureError('Unauthorized', 'the token has expired; reconnect with another one');

/** When the caller's token expires, and the event `expired` with which its stream ends then. Undefined: no expiry. */
export function expiryOf(
  c: RequestContext,
  data: (problem: Problem) => unknown = (problem) => problem,
): { at: number; event: string } | undefined {
  const at = c.get('expiresAt');
  return at === undefined ? undefined : { at, event: namedEvent('expired', data(problemOfError(EXPIRED))) };
}
