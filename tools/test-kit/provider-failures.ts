import type { RunErrorCode } from '../../domain/runs.ts';
import { cut, fail, type ModelAction, raw, say } from './model-actions.ts';

/** How a provider answers for a turn to end with a code, in a worker that asks it once. */
export const PROVIDER_FAILURES = {
  RateLimited: [fail(429)],
  ProviderUnavailable: [fail(503)],
  NetworkError: [say('I'), cut()],
  Overloaded: [fail(529)],
  ProviderUnauthorized: [fail(401)],
  ProviderRejected: [fail(400)],
  EmptyAnswer: [],
  UnreadableAnswer: [raw('<html>')],
} satisfies Partial<Record<RunErrorCode, ModelAction[]>>;
