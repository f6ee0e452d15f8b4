import {
  checkName,
  fullName,
  MAX_STATE_DELTA_BYTES,
  MAX_STATE_KEYS,
  MAX_STATE_VALUE_BYTES,
  parseName,
  StateError,
  type StateKey,
} from './state-keys.ts';
import { stateValue } from './state-value.ts';
import { byteLength, type Json } from './text.ts';

/** One change of state: sets `value`, adds `increment`, or without both deletes the key. */
export interface StateChange extends StateKey {
  value?: Json;
  increment?: number;
  /** Length of the name and the value as JSON; what the limit of a scope counts. */
  bytes?: number;
  /** The version of the key that the writer has seen, 0 for none: if the key has another one, the change is refused. */
  seen?: number;
}

/** The members of an event's actions that change state. */
export interface StateActions {
  stateDelta?: Readonly<Record<string, unknown>> | undefined;
  /** Names of keys to remove. */
  stateDeletions?: readonly string[] | undefined;
  /** Numbers to add to keys; a key that is not set counts as 0. Exact under concurrency. */
  stateIncrements?: Readonly<Record<string, number>> | undefined;
}

/** Length of an incremented key's value, at most: a number in JSON. */
const NUMBER_BYTES = 24;

/**
 * The changes that an event's actions ask for, one per key, including those of `temp:`.
 * @throws {StateError} naming the path to what cannot be stored; `TooLarge` for a value or delta over its limit
 */
export function changesOf(actions: StateActions): StateChange[] {
  const { stateDelta = {}, stateDeletions = [], stateIncrements = {} } = actions;
  const changes = [
    ...Object.entries(record(stateDelta, 'stateDelta')).map(([name, value]) => setting(name, value, 'stateDelta')),
    ...list(stateDeletions).map((name) => deletion(name)),
    ...Object.entries(record(stateIncrements, 'stateIncrements')).map(([name, by]) => increment(name, by)),
  ];
  checkKeys(changes);
  checkDelta(changes, 'stateDelta');
  return changes;
}

/** The members of an event's actions that ask for changes: the reverse of `changesOf`. */
export function actionsOf(changes: readonly StateChange[]) {
  const stateDelta: Record<string, Json> = {};
  const stateIncrements: Record<string, number> = {};
  const stateDeletions: string[] = [];
  for (const change of changes) {
    const name = fullName(change);
    if (change.value !== undefined) stateDelta[name] = change.value;
    else if (change.increment !== undefined) stateIncrements[name] = change.increment;
    else stateDeletions.push(name);
  }
  return { stateDelta, stateIncrements, stateDeletions };
}

/** Without the changes of `temp:`, which only a turn has. */
export function lasting(changes: readonly StateChange[]): StateChange[] {
  return changes.filter(({ scope }) => scope !== 'temp');
}

/**
 * A change that sets a key.
 * @param container what has the key, for the message: `stateDelta`
 * @throws {StateError}
 */
export function setting(name: string, value: unknown, container: string): StateChange {
  checkName(name, container);
  const field = `${container}[${JSON.stringify(name)}]`;
  const clean = stateValue(value, field);
  const bytes = byteLength(name) + byteLength(JSON.stringify(clean));
  if (bytes > MAX_STATE_VALUE_BYTES) {
    throw new StateError(field, `at most ${MAX_STATE_VALUE_BYTES} bytes as JSON, not ${bytes}`, 'TooLarge');
  }
  return { ...parseName(name), value: clean, bytes };
}

function deletion(name: string): StateChange {
  checkName(name, 'stateDeletions');
  return parseName(name);
}

/** A change that adds to a key. @throws {StateError} */
export function increment(name: string, by: unknown): StateChange {
  checkName(name, 'stateIncrements');
  if (typeof by !== 'number' || !Number.isFinite(by)) {
    throw new StateError(`stateIncrements[${JSON.stringify(name)}]`, 'a finite number');
  }
  return { ...parseName(name), increment: by, bytes: byteLength(name) + NUMBER_BYTES };
}

/** @throws {StateError} for a key that is changed twice */
function checkKeys(changes: readonly StateChange[]): void {
  const names = new Set<string>();
  for (const change of changes) {
    const name = fullName(change);
    if (names.has(name)) throw new StateError(`actions[${JSON.stringify(name)}]`, 'one change per key');
    names.add(name);
  }
}

/**
 * @param field of the changes, for the message
 * @throws {StateError} `TooLarge`: more changes than an event may have
 */
export function checkDelta(changes: readonly StateChange[], field: string): void {
  if (changes.length > MAX_STATE_KEYS) {
    throw new StateError(field, `at most ${MAX_STATE_KEYS} changed keys, not ${changes.length}`, 'TooLarge');
  }
  const bytes = changes.reduce((sum, change) => sum + (change.bytes ?? 0), 0);
  if (bytes > MAX_STATE_DELTA_BYTES) {
    throw new StateError(field, `at most ${MAX_STATE_DELTA_BYTES} changed bytes, not ${bytes}`, 'TooLarge');
  }
}

function record(value: unknown, field: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new StateError(field, 'an object');
  if (Object.getOwnPropertySymbols(value).length > 0) throw new StateError(field, 'an object whose keys are strings');
  return value as Record<string, unknown>;
}

function list(value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value;
  throw new StateError('stateDeletions', 'an array of keys');
}
