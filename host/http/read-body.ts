import type { z } from 'zod';
import { PerdureError } from '../../domain/errors.ts';
import { faultIn, parseInput } from '../../wire/input.ts';

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
  for await (const piece of bodyText(request, limit)) text += piece;
  return parseInput(schema, text.trim() === '' ? {} : parseJson(text));
}

/**
 * Streams the text of a body.
 * @throws {PerdureError} `TooLarge` as soon as the limit is exceeded, `BadRequest` for a content encoding or invalid
 * UTF-8
 */
export async function* bodyText(request: Request, limit: BodyLimit): AsyncGenerator<string> {
  refuseEncoding(request);
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
 * The bytes of a body of any length, as they arrive.
 * @throws {PerdureError} `BadRequest` for a content encoding
 */
export async function* plainBytesOf(request: Request): AsyncGenerator<Uint8Array> {
  try {
    refuseEncoding(request);
    for await (const chunk of request.body?.values({ preventCancel: true }) ?? []) yield chunk;
  } finally {
    discardRest(request.body);
  }
}

/** A body of bytes. @throws {PerdureError} `TooLarge` as soon as the limit is exceeded, `BadRequest` for a content encoding */
export async function bytesWithin(request: Request, limit: BodyLimit): Promise<Uint8Array> {
  if (Number(request.headers.get('content-length') ?? 0) > limit.bytes) {
    discardRest(request.body);
    throw tooLarge('body', limit);
  }
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of plainBytesOf(request)) {
    bytes += piece.byteLength;
    if (bytes > limit.bytes) throw tooLarge('body', limit);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** A few compressed bytes can expand to gigabytes. */
export function refuseEncoding(request: Request): void {
  const coding = request.headers.get('content-encoding') ?? 'identity';
  if (coding.toLowerCase() !== 'identity') throw bad('Content-Encoding: expected none (an uncompressed body)');
}

/** What is read of a refused body of any length. */
const DISCARDED_BYTES = 16 * 1024 * 1024;

/**
 * Reads the rest of a refused body. The server closes a connection with unread data half a second after the response,
 * when a proxy may already use it for another user. Beyond `most` bytes it may do so.
 */
async function discard(body: ReadableStream<Uint8Array>, most: number): Promise<void> {
  let left = most;
  for await (const { byteLength } of body) if ((left -= byteLength) < 0) return;
}

/** Reads the rest of a refused body of any length, in the background. */
export function discardRest(body: ReadableStream<Uint8Array> | null): void {
  if (body !== null && !body.locked) discard(body, DISCARDED_BYTES).catch(() => {});
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

/** Parses JSON that `faultIn` accepts. @throws {PerdureError} `BadRequest` */
export function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badBody('JSON');
  }
  const fault = faultIn(value);
  if (fault !== undefined) throw badBody(fault);
  return value;
}
