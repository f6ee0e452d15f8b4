import type { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import { parseInput } from '../wire/input.ts';

/** Most levels of nesting in a body. */
export const MAX_DEPTH = 64;

/** A limit in bytes, and the setting that changes it. */
export interface BodyLimit {
  bytes: number;
  setting: string;
}

/**
 * The JSON body of a request, parsed by `schema`. The content type is ignored; an empty body counts as `{}`.
 * @throws {PerdureError} `TooLarge` as soon as the limit is exceeded, `BadRequest` naming the field
 */
export async function readBody<T>(request: Request, schema: z.ZodType<T>, limit: BodyLimit): Promise<T> {
  let text = '';
  for await (const piece of textOf(request, limit)) text += piece;
  return parseInput(schema, text.trim() === '' ? {} : parseJson(text));
}

/**
 * Streams the text of a body.
 * @throws {PerdureError} `TooLarge` as soon as the limit is exceeded, `BadRequest` for a content encoding or invalid
 * UTF-8
 */
export async function* textOf(request: Request, limit: BodyLimit): AsyncGenerator<string> {
  const coding = request.headers.get('content-encoding') ?? 'identity';
  // A few compressed bytes can expand to gigabytes.
  if (coding.toLowerCase() !== 'identity') throw bad('Content-Encoding: expected none (an uncompressed body)');
  if (Number(request.headers.get('content-length') ?? 0) > limit.bytes) throw tooLarge('body', limit);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw badBody('text in UTF-8');
    }
  };
  let bytes = 0;
  try {
    for await (const chunk of request.body?.values({ preventCancel: true }) ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limit.bytes) throw tooLarge('body', limit);
      yield decode(chunk);
    }
    yield decode();
  } finally {
    if (request.body) discard(request.body, limit.bytes).catch(() => {});
  }
}

/**
 * Reads the rest of a refused body. The server closes a connection with unread data half a second after the response,
 * when a proxy may already use it for another user. Beyond `most` bytes it may do so.
 */
async function discard(body: ReadableStream<Uint8Array>, most: number): Promise<void> {
  let left = most;
  for await (const { byteLength } of body) if ((left -= byteLength) < 0) return;
}

export function tooLarge(field: string, { bytes, setting }: BodyLimit): PerdureError {
  return new PerdureError('TooLarge', `${field}: expected at most ${bytes} bytes (${setting})`);
}

export function badBody(expected: string): PerdureError {
  return bad(`body: expected ${expected}`);
}

function bad(message: string): PerdureError {
  return new PerdureError('BadRequest', message);
}

/** Parses JSON of at most 64 levels. @throws {PerdureError} `BadRequest` */
export function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badBody('JSON');
  }
  checkShape(value);
  return value;
}

/** Visits every value without recursion, so that depth cannot exhaust the stack. */
function checkShape(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) throw badBody(`at most ${MAX_DEPTH} levels of nesting`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) throw badBody('no key "__proto__"');
      for (const member of Object.values(value)) if (typeof member === 'object') next.push(member);
    }
    level = next;
  }
}
