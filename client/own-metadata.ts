import { byteLength, cleanJson } from '../domain/text.ts';
import { InvalidInputError } from '../wire/input.ts';

const MAX_METADATA_BYTES = 16 * 1024;

/** The metadata of a session to store. @throws {InvalidInputError} `TooLarge` */
export function ownMetadata(given: unknown): Record<string, unknown> {
  const metadata = cleanJson(given ?? {}) as Record<string, unknown>;
  if (byteLength(JSON.stringify(metadata)) <= MAX_METADATA_BYTES) return metadata;
  throw new InvalidInputError([{ field: 'metadata', expected: `at most ${MAX_METADATA_BYTES} bytes` }], 'TooLarge');
}
