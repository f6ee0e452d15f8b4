import type { z } from 'zod';
import { newId } from '../domain/ids.ts';
import { InvalidInput, parseInput } from '../wire/input.ts';
import type { PartData } from '../domain/part-data.ts';
import { RESERVED_METADATA } from '../domain/runs.ts';
import { byteLength, cleanJson } from '../domain/text.ts';
import { modelRef, submitBody, type userPart } from '../wire/requests.ts';
import type { NewMessage } from '../store/messages.ts';

/** A user message: its text, or its parts as the AI SDK has them (text and file). */
export interface MessageInput {
  /** 1 to 64 of letters, digits, _ and -; the same id and content again is the same message. Made where it is missing. */
  id?: string | undefined;
  text?: string | undefined;
  parts?: z.output<typeof userPart>[] | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  /** `provider/model`; else the one in `metadata.model`, else the one that was used last. */
  model?: string | null | undefined;
}

/**
 * The message as it is stored: checked by the schema of POST …/messages, clean text, no metadata that only the system
 * writes.
 * @throws {InvalidInput} `BadRequest`, `TooLarge` over `maxBytes` of JSON in UTF-8
 */
export function newMessage(given: MessageInput, maxBytes: number): NewMessage {
  const input = parseInput(submitBody, { ...given, metadata: given.metadata ?? undefined });
  const { id = newId('msg') } = input;
  const parts = partsOf(input);
  const metadata = metadataOf(input.metadata);
  refuseTooLarge(input.text === undefined ? 'parts' : 'text', parts, metadata, maxBytes);
  return {
    id,
    answerId: newId('msg'),
    parts: parts.map((data) => ({ id: newId('prt'), data })),
    metadata,
    model: input.model ?? carriedModel(metadata),
  };
}

/** The larger one of what a message is made of is at fault. */
function refuseTooLarge(content: 'text' | 'parts', parts: PartData[], metadata: object, maxBytes: number): void {
  const [ofParts, ofMetadata] = [byteLength(JSON.stringify(parts)), byteLength(JSON.stringify(metadata))];
  const bytes = ofParts + ofMetadata;
  if (bytes <= maxBytes) return;
  const field = ofMetadata > ofParts ? 'metadata' : content;
  const expected = `a message of at most ${maxBytes} bytes (PERDURE_MAX_MESSAGE), not ${bytes}`;
  throw new InvalidInput([{ field, expected }], 'TooLarge');
}

function partsOf({ text, parts = [] }: MessageInput): PartData[] {
  const given = text === undefined ? parts : [{ type: 'text' as const, text }];
  // A page that sends a file and no words sends an empty text along.
  const kept = given.filter((part) => part.type !== 'text' || part.text !== '');
  if (kept.length === 0) throw bad(text === undefined ? 'parts' : 'text', 'a non-empty message');
  return cleanJson(kept) as unknown as PartData[];
}

function metadataOf(given: MessageInput['metadata']): Record<string, unknown> {
  const metadata = cleanJson(given ?? {}) as Record<string, unknown>;
  for (const name of RESERVED_METADATA) delete metadata[name];
  return metadata;
}

function carriedModel(metadata: Record<string, unknown>): string | null {
  if (metadata['model'] === undefined || metadata['model'] === null) return null;
  return parseInput(modelRef, metadata['model'], ['metadata', 'model']);
}

function bad(field: string, expected: string): InvalidInput {
  return new InvalidInput([{ field, expected }]);
}
