import { StateError } from './state-keys.ts';
import { cleanText, type Json } from './text.ts';

/** Deeper values are refused: Postgres and recursive readers have a limit too. */
const MAX_DEPTH = 100;

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/**
 * A copy of a value that JSON can carry; members that are undefined are left out, as JSON does. U+0000 and lone surrogates,
 * which Postgres refuses, become U+FFFD.
 * @param path where the value is, for the message
 * @throws {StateError} naming the path to the first part that JSON cannot carry
 */
export function stateValue(value: unknown, path: string): Json {
  return copy(value, path, []);
}

function copy(value: unknown, path: string, inside: readonly object[]): Json {
  switch (typeof value) {
    case 'string':
      return cleanText(value);
    case 'boolean':
      return value;
    case 'number':
      if (Number.isFinite(value)) return value === 0 ? 0 : value;
      throw new StateError(path, `a finite number, not ${value}`);
    case 'object':
      return value === null ? null : copyObject(value, path, inside);
    case 'function':
      throw new StateError(path, 'a value that JSON can carry, not a function');
    default:
      throw new StateError(
        path,
        `a value that JSON can carry, not ${value === undefined ? 'undefined' : `a ${typeof value}`}`,
      );
  }
}

function copyObject(value: object, path: string, inside: readonly object[]): Json {
  if (inside.includes(value)) throw new StateError(path, 'a value that does not contain itself');
  if (inside.length >= MAX_DEPTH) throw new StateError(path, `a value at most ${MAX_DEPTH} levels deep`);
  const within = [...inside, value];
  // By index: a hole of a sparse array is undefined, too.
  if (Array.isArray(value)) {
    return Array.from({ length: value.length }, (_, index) => copy(value[index], `${path}[${index}]`, within));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null && !isPlainElsewhere(prototype)) {
    throw new StateError(path, `a plain object, not an instance of ${nameOf(value)}`);
  }
  if (Object.getOwnPropertySymbols(value).length > 0) throw new StateError(path, 'an object whose keys are strings');
  const members = Object.entries(value).filter(([key, member]) => {
    if (key === '__proto__') throw new StateError(`${path}.__proto__`, 'another key than __proto__');
    return member !== undefined;
  });
  return Object.fromEntries(
    members.map(([key, member]) => {
      const at = IDENTIFIER.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
      return [cleanText(key), copy(member, at, within)];
    }),
  );
}

/** Object.prototype of another realm, such as a test runner's or a vm's. */
function isPlainElsewhere(prototype: unknown): boolean {
  return (
    typeof prototype === 'object' &&
    prototype !== null &&
    Object.getPrototypeOf(prototype) === null &&
    Object.hasOwn(prototype, 'hasOwnProperty') &&
    Object.hasOwn(prototype, 'isPrototypeOf')
  );
}

function nameOf(value: object): string {
  const { constructor } = value as { constructor?: unknown };
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'a class';
}
