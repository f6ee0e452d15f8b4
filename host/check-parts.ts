import { isOrigin, ORIGINS_EXPECTED } from '../config/origins.ts';
import type { HostParts } from './context.ts';

/** Every part, and what is expected of it. */
const EXPECTED: Readonly<Record<keyof HostParts, (value: unknown) => string | undefined>> = {
  client: object('a client from createClient'),
  identify: functionWith('a function of the request that returns { user }, such as tokenUser(…)'),
  log: object('a pino logger, such as createLogger(…)'),
  metrics: object('hostMetrics()'),
  maxBodyBytes: count('a whole number of bytes, at least 1'),
  maxTranscriptBytes: optional(count('a whole number of bytes, at least 1')),
  maxReaders: optional(count('a whole number of at least 1')),
  maxRequests: optional(count('a whole number of at least 1')),
  allowedOrigins: optional((value) =>
    Array.isArray(value) && value.every(isOrigin) ? undefined : `an array of ${ORIGINS_EXPECTED}`,
  ),
  page: optional(functionWith('a function of the request')),
  temporalWorkflows: optional(httpUrl("the URL of workflows in Temporal's UI, without a slash at its end")),
  basePath: () => undefined,
  previews: optional(object('a Previews')),
};

/** @throws {TypeError} naming the first part that is missing, invalid or unknown, or without effect beside others */
export function checkParts(parts: HostParts, basePath: string): void {
  const unknown = Object.keys(parts).find((name) => !Object.hasOwn(EXPECTED, name));
  if (unknown !== undefined) throw new TypeError(`${unknown}: no such option of createHost`);
  for (const [name, problem] of Object.entries(EXPECTED)) {
    const expected = problem(parts[name as keyof HostParts]);
    if (expected !== undefined) throw new TypeError(`${name}: expected ${expected}`);
  }
  if (basePath !== '' && parts.page !== undefined) {
    throw new TypeError('page: expected none with basePath, because the server around the host serves the pages');
  }
}

type Check = (value: unknown) => string | undefined;

function object(expected: string): Check {
  return (value) => (typeof value === 'object' && value !== null ? undefined : expected);
}

function functionWith(expected: string): Check {
  return (value) => (typeof value === 'function' ? undefined : expected);
}

function count(expected: string): Check {
  return (value) => (Number.isSafeInteger(value) && Number(value) >= 1 ? undefined : expected);
}

function httpUrl(expected: string): Check {
  return (value) => (typeof value === 'string' && /^https?:\/\/[^\s]*[^\s/]$/.test(value) ? undefined : expected);
}

function optional(check: Check): Check {
  return (value) => (value === undefined ? undefined : check(value));
}
