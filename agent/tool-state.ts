import { byteLength, cleanJson, cleanText, type Json } from '../domain/text.ts';
import type { ToolState } from './define.ts';

/** The scopes of state: this session, this user, everybody, this turn. */
export type StateScope = 'session' | 'user' | 'app' | 'temp';

interface StateKey {
  scope: StateScope;
  key: string;
}

/** A change of state; without a value the key is deleted. */
export interface StateEdit extends StateKey {
  value?: Json;
}

/** A value as JSON, and all keys and values of a scope together, in bytes. Every tool call loads what a scope holds. */
export const MAX_STATE_VALUE_BYTES = 64 * 1024;
export const MAX_STATE_SCOPE_BYTES = 256 * 1024;
export const MAX_STATE_KEYS = 1_000;
const MAX_KEY_BYTES = 256;

const PREFIXES = { 'user:': 'user', 'app:': 'app', 'temp:': 'temp' } as const;

/** The scope and the bare key of a name such as `user:theme`. */
function parseName(name: string): StateKey {
  for (const [prefix, scope] of Object.entries(PREFIXES)) {
    if (name.startsWith(prefix)) return { scope, key: name.slice(prefix.length) };
  }
  return { scope: 'session', key: name };
}

/** The name of a key as tools use it. */
export function fullName({ scope, key }: StateKey): string {
  return scope === 'session' ? key : `${scope}:${key}`;
}

/**
 * The state that a tool sees: `values` by full name, changed by the tool. `edits` are its changes.
 *
 * @param incomplete scopes that hold more than could be loaded: reading an unknown key of one throws
 */
export function toolState(
  values: Map<string, Json>,
  incomplete: ReadonlySet<StateScope> = new Set(),
): { state: ToolState; edits(): StateEdit[] } {
  const edits = new Map<string, StateEdit>();
  const requireLoaded = (name: string) => {
    const { scope } = parseName(name);
    if (!values.has(name) && !edits.has(name) && incomplete.has(scope)) throw new Error(tooMuch(name, scope));
  };
  const set = (name: string, value: Json) => {
    const clean = cleanJson(value);
    check(values, incomplete, name, clean);
    values.set(name, clean);
    edits.set(name, { ...parseName(name), value: clean });
  };
  const state: ToolState = {
    get: (name) => {
      requireLoaded(name);
      return values.get(name);
    },
    set,
    has: (name) => {
      requireLoaded(name);
      return values.has(name);
    },
    delete: (name) => {
      checkName(name);
      values.delete(name);
      edits.set(name, parseName(name));
    },
    update: (more) => {
      for (const [name, value] of Object.entries(more)) set(name, value);
    },
    getAll: () => Object.fromEntries(values),
  };
  return { state, edits: () => [...edits.values()] };
}

/** @throws {Error} naming the key and the limit that the value would exceed */
function check(
  values: ReadonlyMap<string, Json>,
  incomplete: ReadonlySet<StateScope>,
  name: string,
  value: Json,
): void {
  checkName(name);
  const bytes = sizeOf(name, value);
  if (bytes > MAX_STATE_VALUE_BYTES) {
    throw new Error(`state key "${name}": ${bytes} bytes as JSON, expected at most ${MAX_STATE_VALUE_BYTES}`);
  }
  const { scope } = parseName(name);
  if (incomplete.has(scope)) throw new Error(tooMuch(name, scope));
  const others = [...values].filter(([other]) => other !== name && parseName(other).scope === scope);
  const total = others.reduce((sum, [other, each]) => sum + sizeOf(other, each), bytes);
  if (total > MAX_STATE_SCOPE_BYTES || others.length >= MAX_STATE_KEYS) throw new Error(tooMuch(name, scope));
}

/** What Postgres cannot store would lose the tool's outcome. */
function checkName(name: string): void {
  if (parseName(name).key === '' || byteLength(name) > MAX_KEY_BYTES || name !== cleanText(name)) {
    throw new Error(`a key of state has 1 to ${MAX_KEY_BYTES} bytes of text`);
  }
}

function sizeOf(name: string, value: Json): number {
  return byteLength(name) + byteLength(JSON.stringify(value));
}

function tooMuch(name: string, scope: StateScope): string {
  return `state key "${name}": the scope "${scope}" may hold ${MAX_STATE_SCOPE_BYTES} bytes in ${MAX_STATE_KEYS} keys: delete others first`;
}
