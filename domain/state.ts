import { canonicalJson } from './canonical-json.ts';
import { actionsOf, checkDelta, increment, setting, type StateChange } from './state-changes.ts';
import {
  checkName,
  fullName,
  MAX_STATE_KEYS,
  MAX_STATE_SCOPE_BYTES,
  parseName,
  StateError,
  StatePrefix,
  type StateScope,
} from './state-keys.ts';
import { byteLength, type Json } from './text.ts';

/** What a `State` is made of besides its values. */
export interface StateOptions {
  /** Scopes that hold more than `values`: reading or writing an unknown key of one throws. */
  incomplete?: ReadonlySet<StateScope>;
  /** Versions of the keys; those of read keys go into `edits`. */
  versions?: ReadonlyMap<string, number>;
}

/**
 * Key-value state under string keys; the prefix of a key is its scope. Values are also properties: `state['user:theme']`.
 * Keys that are names of methods are reached through `get` and `set` only.
 *
 * Changes are kept here, in `changes` and `edits`, until an event or a tool's result stores them.
 */
export class State {
  static readonly APP_PREFIX = StatePrefix.APP_PREFIX;
  static readonly USER_PREFIX = StatePrefix.USER_PREFIX;
  static readonly TEMP_PREFIX = StatePrefix.TEMP_PREFIX;

  /** The values of keys without a method of the same name. */
  [key: string]: unknown;

  constructor(
    values: Readonly<Record<string, unknown>> | Iterable<readonly [string, Json]> = {},
    options: StateOptions = {},
  ) {
    const entries = Symbol.iterator in values ? [...values] : Object.entries(values);
    cores.set(this, new Core(new Map(entries as [string, Json][]), options));
    const proxy = new Proxy(this, handler);
    cores.set(proxy, coreOf(this));
    return proxy;
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as ADK's State: the caller names the type
  get<T = Json>(key: string): T | undefined;
  get<T>(key: string, defaultValue: T): T;
  get<T>(key: string, defaultValue?: T): T | undefined {
    return (coreOf(this).read(key) as T | undefined) ?? (coreOf(this).has(key) ? (null as T) : defaultValue);
  }

  /** @throws {StateError} naming the path to what JSON cannot carry, or the limit that the value exceeds */
  set(key: string, value: unknown): void {
    coreOf(this).set(key, value);
  }

  has(key: string): boolean {
    return coreOf(this).has(key);
  }

  /** Returns whether the key was set. */
  delete(key: string): boolean {
    return coreOf(this).delete(key);
  }

  /** Sets several keys; if one is refused, none is set. */
  update(values: Readonly<Record<string, unknown>>): void {
    coreOf(this).update(values);
  }

  /**
   * Adds to a number, and returns the sum as far as this object knows it. Whoever stores the change adds to the number stored
   * then, so that no addition is lost, however many write at once. A key that is not set counts as 0.
   * @throws {StateError} the key holds something else than a number
   */
  increment(key: string, by = 1): number {
    return coreOf(this).increment(key, by);
  }

  /** All values by name. */
  getAll(): Record<string, Json> {
    return coreOf(this).all();
  }

  /** Whether there are changes. */
  hasDelta(): boolean {
    return coreOf(this).changed.size > 0;
  }

  /** The changes since this object was made, as members of an event's actions. */
  changes(): {
    stateDelta: Record<string, unknown>;
    stateIncrements: Record<string, number>;
    stateDeletions: string[];
  } {
    return actionsOf([...coreOf(this).changed.values()]);
  }

  toJSON(): Record<string, Json> {
    return this.getAll();
  }
}

/** The changes of a state, with the versions of the keys that were read. */
export function editsOf(state: State): StateChange[] {
  return coreOf(state).edits();
}

/**
 * Takes the changes that an event carries out of a state's unsent ones, while the event is being stored. A change that differs
 * from the event's was made later, and stays. Returns a function to call at the end: after `failed` they are unsent again.
 */
export function handOver(
  state: Record<string, unknown>,
  changes: readonly StateChange[],
): (end: 'stored' | 'failed') => void {
  return cores.get(state)?.handOver(changes) ?? (() => {});
}

/**
 * Takes over values that have been stored, into a `State` or a plain object; they are no changes of its own. A `State` keeps
 * changes of its own that are not stored yet, increments on top of the stored number.
 * Returns the keys whose stored values it does not show, because it has set or deleted them since.
 */
export function adoptState(
  state: Record<string, unknown>,
  { set, deleted }: { set: Record<string, Json>; deleted: readonly string[] },
): string[] {
  const core = cores.get(state);
  if (core !== undefined) return core.adopt(set, deleted);
  for (const [name, value] of Object.entries(set)) {
    // Not an assignment, which `__proto__` would turn into a change of the prototype.
    Object.defineProperty(state, name, { value, writable: true, enumerable: true, configurable: true });
  }
  for (const name of deleted) Reflect.deleteProperty(state, name);
  return [];
}

class Core {
  readonly changed = new Map<string, StateChange>();
  /** Those handed over to events that are being stored, oldest first. */
  private readonly sending = new Set<ReadonlyMap<string, StateChange>>();
  private readonly values: Map<string, Json>;
  private readonly options: StateOptions;
  private readonly readKeys = new Set<string>();
  /** Sizes of values by name, once measured. */
  private readonly sizes = new Map<string, { value: Json; bytes: number }>();

  constructor(values: Map<string, Json>, options: StateOptions) {
    this.values = values;
    this.options = options;
  }

  read(name: string): Json | undefined {
    this.requireLoaded(name);
    return this.values.get(name);
  }

  has(name: string): boolean {
    this.requireLoaded(name);
    return this.values.has(name);
  }

  set(name: string, value: unknown): void {
    this.change(name, setting(name, value, 'state'));
  }

  update(values: Readonly<Record<string, unknown>>): void {
    const before = { values: new Map(this.values), changed: new Map(this.changed) };
    try {
      for (const [name, value] of Object.entries(values)) this.set(name, value);
    } catch (error) {
      replace(this.values, before.values);
      replace(this.changed, before.changed);
      throw error;
    }
  }

  delete(name: string): boolean {
    checkName(name, 'state');
    this.note(name, parseName(name));
    return this.values.delete(name);
  }

  increment(name: string, by: number): number {
    const adding = increment(name, by);
    // Not for `null`, which is a value and no number.
    const now = this.has(name) ? this.read(name) : 0;
    if (typeof now !== 'number') throw new StateError(`state[${JSON.stringify(name)}]`, 'a number to add to');
    const sum = setting(name, now + by, 'state').value as number;
    const earlier = this.changed.get(name);
    if (earlier?.increment !== undefined) adding.increment = earlier.increment + by;
    // After a set or a deletion, the sum is known.
    this.change(name, isKnown(earlier) ? setting(name, sum, 'state') : adding, sum);
    return sum;
  }

  handOver(changes: readonly StateChange[]): (end: 'stored' | 'failed') => void {
    const sent = new Map<string, StateChange>();
    for (const change of changes) {
      const name = fullName(change);
      const own = this.changed.get(name);
      if (own === undefined || !isPartOf(change, own)) continue;
      sent.set(name, change);
      const rest = (own.increment ?? 0) - (change.increment ?? 0);
      if (rest === 0) this.changed.delete(name);
      else this.changed.set(name, { ...own, increment: rest });
    }
    this.sending.add(sent);
    return (end) => {
      this.sending.delete(sent);
      if (end === 'failed') for (const change of sent.values()) this.takeBack(change);
    };
  }

  adopt(set: Record<string, Json>, deleted: readonly string[]): string[] {
    const kept: string[] = [];
    const stored = [...Object.entries(set), ...deleted.map((name): [string, undefined] => [name, undefined])];
    for (const [name, value] of stored) {
      const own = this.unstored(name);
      if (own.some(isKnown)) {
        kept.push(name);
        continue;
      }
      const by = own.reduce((sum, { increment: each = 0 }) => sum + each, 0);
      const now = own.length === 0 ? value : plus(value, by);
      if (now === undefined) this.values.delete(name);
      else this.values.set(name, now);
    }
    return kept;
  }

  all(): Record<string, Json> {
    for (const name of this.values.keys()) this.readKeys.add(name);
    return Object.fromEntries(this.values);
  }

  keys(): string[] {
    return [...this.values.keys()];
  }

  edits(): StateChange[] {
    const { versions } = this.options;
    return [...this.changed].map(([name, change]) => {
      const isFenced = versions !== undefined && this.readKeys.has(name) && change.increment === undefined;
      return isFenced && change.scope !== 'temp' ? Object.assign({ seen: versions.get(name) ?? 0 }, change) : change;
    });
  }

  private change(name: string, change: StateChange, value = change.value): void {
    this.checkScope(name, change);
    this.note(name, change);
    this.values.set(name, value as Json);
  }

  /** @throws {StateError} the changes would be more than one event may have */
  private note(name: string, change: StateChange): void {
    const others = [...this.changed].filter(([other]) => other !== name).map(([, other]) => other);
    checkDelta([...others, change], `state[${JSON.stringify(name)}]`);
    this.changed.set(name, change);
  }

  /** The changes of a key that are not stored yet, oldest first. */
  private unstored(name: string): StateChange[] {
    return [...this.sending, this.changed].flatMap((changes) => changes.get(name) ?? []);
  }

  /** Takes back the oldest changes: appends end in the order in which they began. */
  private takeBack(change: StateChange): void {
    const name = fullName(change);
    const later = this.unstored(name);
    if (later.some(isKnown)) return;
    const { increment: by } = change;
    if (by !== undefined)
      this.changed.set(name, { ...change, increment: by + (this.changed.get(name)?.increment ?? 0) });
    else if (later.length === 0) this.changed.set(name, change);
    else this.changed.set(name, setting(name, this.values.get(name), 'state'));
  }

  private requireLoaded(name: string): void {
    if (!this.changed.has(name)) this.readKeys.add(name);
    const { scope } = parseName(name);
    if (!this.values.has(name) && !this.changed.has(name) && this.options.incomplete?.has(scope) === true) {
      throw tooMuch(name, scope);
    }
  }

  /** @throws {StateError} the scope would exceed its limits */
  private checkScope(name: string, { scope, bytes = 0 }: StateChange): void {
    if (this.options.incomplete?.has(scope) === true) throw tooMuch(name, scope);
    const others = [...this.values].filter(([other]) => other !== name && parseName(other).scope === scope);
    const total = others.reduce((sum, [other, value]) => sum + this.sizeOf(other, value), bytes);
    if (total > MAX_STATE_SCOPE_BYTES || others.length >= MAX_STATE_KEYS) throw tooMuch(name, scope);
  }

  private sizeOf(name: string, value: Json): number {
    const known = this.sizes.get(name);
    if (known?.value === value) return known.bytes;
    const bytes = byteLength(name) + byteLength(JSON.stringify(value));
    this.sizes.set(name, { value, bytes });
    return bytes;
  }
}

/** Held outside of the objects, so that no key can collide with it. */
const cores = new WeakMap<object, Core>();

/** @throws {TypeError} the state is a deep copy, as lodash's cloneDeep makes it: it has the prototype, but only properties */
function coreOf(state: State): Core {
  const core = cores.get(state);
  if (core === undefined) throw new TypeError('a deep copy of a State is a plain object: its values are properties');
  return core;
}

function isMember(key: string): boolean {
  return key in State.prototype;
}

const handler: ProxyHandler<State> = {
  get: (target, key, receiver) =>
    typeof key === 'symbol' || isMember(key)
      ? (Reflect.get(target, key, receiver) as unknown)
      : coreOf(target).read(key),
  set: (target, key, value) => {
    if (typeof key === 'symbol') throw new StateError('state', 'an object whose keys are strings');
    if (isMember(key)) throw new StateError(`state.${key}`, `state.set(${JSON.stringify(key)}, …): it is a method`);
    coreOf(target).set(key, value);
    return true;
  },
  has: (target, key) => typeof key === 'string' && coreOf(target).has(key),
  deleteProperty: (target, key) => {
    if (typeof key === 'string') coreOf(target).delete(key);
    return true;
  },
  ownKeys: (target) => coreOf(target).keys(),
  getOwnPropertyDescriptor: (target, key) => {
    const core = coreOf(target);
    if (typeof key !== 'string' || !core.has(key)) return undefined;
    return { value: core.read(key), writable: true, enumerable: true, configurable: true };
  },
  defineProperty: (target, key, { value }) => {
    if (typeof key === 'string') coreOf(target).set(key, value);
    return typeof key === 'string';
  },
};

/** Whether a change sets or deletes its key: then what was stored before does not matter. */
function isKnown(change: StateChange | undefined): boolean {
  return change !== undefined && change.increment === undefined;
}

/** Whether an event's change of a key is the state's own, or the part of its increments that there was when the event was made. */
function isPartOf(change: StateChange, own: StateChange): boolean {
  if (change.increment !== undefined || own.increment !== undefined) return !isKnown(change) && !isKnown(own);
  return canonicalJson({ value: change.value }) === canonicalJson({ value: own.value });
}

/** A stored value with an increment that is not stored yet; whoever stores it refuses what is no number. */
function plus(value: Json | undefined, by: number): Json {
  const from = value === undefined ? 0 : value;
  return typeof from === 'number' ? from + by : from;
}

function replace<K, V>(map: Map<K, V>, entries: Map<K, V>): void {
  map.clear();
  for (const [key, value] of entries) map.set(key, value);
}

function tooMuch(name: string, scope: StateScope): StateError {
  const expected = `the scope "${scope}" to hold ${MAX_STATE_SCOPE_BYTES} bytes in ${MAX_STATE_KEYS} keys: delete others first`;
  return new StateError(`state[${JSON.stringify(name)}]`, expected, 'TooLarge');
}
