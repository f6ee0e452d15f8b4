import type { z } from 'zod';
import { type ErrorCode, PerdureError } from '../domain/errors.ts';

/** An invalid field, such as `messages[3].parts[0].url`; `expected` completes the sentence "expected …". */
export interface FieldError {
  field: string;
  expected: string;
}

/** Invalid input, with the fields at fault. */
export class InvalidInputError extends PerdureError {
  readonly errors: readonly FieldError[];

  constructor(errors: readonly FieldError[], code: ErrorCode = 'BadRequest') {
    super(code, errors.map(({ field, expected }) => `${field}: expected ${expected}`)[0] ?? 'the input is not valid');
    this.errors = errors;
  }

  /** The same error with `prefix` before the field names. */
  under(prefix: string): InvalidInputError {
    const errors = this.errors.map(({ field, expected }) => ({ field: `${prefix}.${field}`, expected }));
    return new InvalidInputError(errors, this.code);
  }
}

/** The error of an idempotency key that comes again with other arguments. */
export function keyReused(): InvalidInputError {
  const expected = 'a new key: this one was sent before with other arguments';
  return new InvalidInputError([{ field: 'Idempotency-Key', expected }], 'KeyReused');
}

/**
 * Parses a value with a schema.
 * @param prefix path of the value within the request
 * @throws {InvalidInputError} naming each invalid field and what was expected
 */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown, prefix: readonly PropertyKey[] = []): T {
  const parsed = schema.safeParse(value, { error: expectation });
  if (parsed.success) return parsed.data;
  throw new InvalidInputError(
    parsed.error.issues.flatMap((issue) => {
      const path = [...prefix, ...issue.path];
      if (issue.code !== 'unrecognized_keys') return { field: fieldOf(path) || 'body', expected: issue.message };
      return issue.keys.map((key) => ({ field: fieldOf([...path, key]), expected: 'no such field' }));
    }),
  );
}

/** Most levels of nesting in JSON from outside. */
export const MAX_DEPTH = 64;

/**
 * What parsed JSON should have been, if it nests deeper than 64 levels, sets a prototype, or has a number beyond a double.
 * Visits every value without recursion, so that depth cannot exhaust the stack.
 */
export function faultIn(root: unknown): string | undefined {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MAX_DEPTH) return `at most ${MAX_DEPTH} levels of nesting`;
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) return 'no key "__proto__"';
      for (const member of Object.values(value) as unknown[]) {
        if (typeof member === 'number' && !Number.isFinite(member)) return 'numbers that a double can hold';
        if (typeof member === 'object') next.push(member);
      }
    }
    level = next;
  }
  return undefined;
}

const ARTICLES: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'a string',
};

/** The message for an issue whose schema defines none. */
function expectation(issue: z.core.$ZodRawIssue): string {
  if (issue.code === 'invalid_type') return ARTICLES[issue.expected] ?? issue.expected;
  if (issue.code === 'invalid_value') return issue.values.map((value) => JSON.stringify(value)).join(' or ');
  if (issue.code === 'too_small') return `at least ${issue.minimum} ${unitOf(issue.origin)}`.trim();
  if (issue.code === 'too_big') return `at most ${issue.maximum} ${unitOf(issue.origin)}`.trim();
  return 'another value';
}

function unitOf(origin: string): string {
  if (origin === 'string') return 'characters';
  return origin === 'array' ? 'items' : '';
}

/** A path as text: `messages[3].parts[0].text`. */
function fieldOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((field, key) => {
    if (typeof key === 'number') return `${field}[${key}]`;
    return field === '' ? String(key) : `${field}.${String(key)}`;
  }, '');
}
