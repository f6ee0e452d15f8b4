import type { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import { parseInput } from '../domain/input.ts';

/** Deeper than anything that a client has to say, and far from what exhausts a stack. */
const MAX_DEPTH = 64;

/**
 * The JSON body of a request as `schema` has it; no body is an empty object.
 * @throws {PerdureError} `TooLarge` as soon as more than `maxBytes` have come, `BadRequest` naming the field
 */
export async function readBody<T>(request: Request, schema: z.ZodType<T>, maxBytes: number): Promise<T> {
  const text = await readText(request, maxBytes);
  return parseInput(schema, text.trim() === '' ? {} : parseJson(text));
}

async function readText(request: Request, maxBytes: number): Promise<string> {
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of request.body) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(maxBytes: number): PerdureError {
  return new PerdureError('TooLarge', `body: expected at most ${maxBytes} bytes (PERDURE_MAX_BODY)`);
}

function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new PerdureError('BadRequest', 'body: expected JSON');
  }
  checkShape(value);
  return value;
}

/** Looks at every value without recursion, for what it guards against is depth. */
function checkShape(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH)
      throw new PerdureError('BadRequest', `body: expected at most ${MAX_DEPTH} levels of nesting`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) throw new PerdureError('BadRequest', 'body: expected no key "__proto__"');
      for (const member of Object.values(value)) if (typeof member === 'object') next.push(member);
    }
    level = next;
  }
}
