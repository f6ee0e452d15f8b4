import { PerdureError } from './errors.ts';
import { byteLength, cleanText } from './text.ts';

/** The prefixes of keys; a key without one belongs to the session. Any other prefix is a part of the key. */
export const StatePrefix = Object.freeze({ APP_PREFIX: 'app:', USER_PREFIX: 'user:', TEMP_PREFIX: 'temp:' });

/** The scopes of state: this session, this user, everybody, this turn. */
export const STATE_SCOPES = ['session', 'user', 'app', 'temp'] as const;
export type StateScope = (typeof STATE_SCOPES)[number];

/** Those that outlive a turn. */
export const LASTING_SCOPES = ['session', 'user', 'app'] as const satisfies readonly StateScope[];
export type LastingScope = (typeof LASTING_SCOPES)[number];

/** A key in its scope, without the prefix. */
export interface StateKey {
  scope: StateScope;
  key: string;
}

/** A value as JSON with the name of its key, in bytes. */
export const MAX_STATE_VALUE_BYTES = 64 * 1024;
/** All names and values of a scope together; every tool call loads what a scope holds. */
export const MAX_STATE_SCOPE_BYTES = 256 * 1024;
export const MAX_STATE_KEYS = 1_000;
/** The names and values of one event together. */
export const MAX_STATE_DELTA_BYTES = 256 * 1024;
const MAX_STATE_KEY_BYTES = 256;

const SCOPES = { 'user:': 'user', 'app:': 'app', 'temp:': 'temp' } as const;

/** What is wrong with a value or a key of state, with the path to it. */
export class StateError extends PerdureError {
  /** Such as `stateDelta["user:cart"].items[2]`. */
  readonly field: string;
  /** Completes the sentence "<field>: expected …". */
  readonly expected: string;

  constructor(field: string, expected: string, code: 'BadRequest' | 'TooLarge' = 'BadRequest') {
    super(code, `${field}: expected ${expected}`);
    this.field = field;
    this.expected = expected;
  }
}

/** The scope and the bare key of a name such as `user:theme`. */
export function parseName(name: string): StateKey {
  for (const [prefix, scope] of Object.entries(SCOPES)) {
    if (name.startsWith(prefix)) return { scope, key: name.slice(prefix.length) };
  }
  return { scope: 'session', key: name };
}

/** The name of a key with its prefix. */
export function fullName({ scope, key }: StateKey): string {
  return scope === 'session' ? key : `${scope}:${key}`;
}

/**
 * Refuses names that cannot be stored.
 * @param container what has the key, for the message: `stateDelta`
 * @throws {StateError}
 */
export function checkName(name: string, container: string): void {
  const { key } = parseName(name);
  const field = `${container}[${JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name)}]`;
  if (key === '' || byteLength(name) > MAX_STATE_KEY_BYTES || name !== cleanText(name)) {
    throw new StateError(field, `a key of state has 1 to ${MAX_STATE_KEY_BYTES} bytes of text`);
  }
  if (key === '__proto__') throw new StateError(field, 'another key than __proto__');
}

/** The scope would hold more than it may. */
export function scopeFull(scope: string): StateError {
  const expected = `the scope "${scope}" to hold at most ${MAX_STATE_SCOPE_BYTES} bytes in ${MAX_STATE_KEYS} keys`;
  return new StateError('stateDelta', expected, 'TooLarge');
}

/** Another writer changed a key since the session was read. */
export function staleSession(name: string): PerdureError {
  const how = parseName(name).scope === 'session' ? '' : ' with its version: other sessions change it, too';
  const message = `the key ${JSON.stringify(name)} was changed since the session was read: read it again${how}`;
  return new PerdureError('StaleSession', message);
}
