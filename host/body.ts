import type { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import { parseInput } from '../wire/input.ts';

/** Deeper than anything that a client has to say, and far from what exhausts a stack. */
const MAX_DEPTH = 64;

/**
 * The JSON body of a request as `schema` has it, whatever its content type says; no body is an empty object.
 * @throws {PerdureError} `TooLarge` as soon as more than `maxBytes` have come, `BadRequest` naming the field
 */
export async function readBody<T>(request: Request, schema: z.ZodType<T>, maxBytes: number): Promise<T> {
  const coding = request.headers.get('content-encoding') ?? 'identity';
  // A few bytes can be packed that make gigabytes.
  if (coding.toLowerCase() !== 'identity') throw bad('Content-Encoding: expected none, the body as it is');
  const text = await readText(request, maxBytes);
  return parseInput(schema, text.trim() === '' ? {} : parseJson(text));
}

async function readText(request: Request, maxBytes: number): Promise<string> {
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return '';
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of request.body) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw bad('body: expected text in UTF-8');
  }
}

function tooLarge(maxBytes: number): PerdureError {
  return new PerdureError('TooLarge', `body: expected at most ${maxBytes} bytes (PERDURE_MAX_BODY)`);
}

function bad(message: string): PerdureError {
  return new PerdureError('BadRequest', message);
}

function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw bad('body: expected JSON');
  }
  checkShape(value);
  return value;
}

/** Looks at every value without recursion, for what it guards against is depth. */
function checkShape(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) throw bad(`body: expected at most ${MAX_DEPTH} levels of nesting`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) throw bad('body: expected no key "__proto__"');
      for (const member of Object.values(value)) if (typeof member === 'object') next.push(member);
    }
    level = next;
  }
}
