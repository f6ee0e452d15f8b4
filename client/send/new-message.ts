import type { z } from 'zod';
import { type Attributes, attributesProblem } from '../../domain/attributes.ts';
import { newId } from '../../domain/ids.ts';
import type { PartData } from '../../domain/part-data.ts';
import { RESERVED_METADATA } from '../../domain/runs.ts';
import { byteLength, cleanJson } from '../../domain/text.ts';
import type { NewMessage } from '../../store/messages.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { type ModelChoice, modelChoice, submitBody, type userPart } from '../../wire/requests.ts';
import { chosenModel } from './chosen-model.ts';

/** A user message: its text, or its AI SDK parts (text and file). */
export interface MessageInput {
  /** 1 to 64 of letters, digits, _ and -; sending the same id and content again has no effect. Generated if unset. */
  id?: string | undefined;
  text?: string | undefined;
  parts?: z.output<typeof userPart>[] | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  /** `provider/model`, or an object that may name a variant; default: `metadata.model`, else the one used last. */
  model?: z.input<typeof modelChoice> | null | undefined;
}

/**
 * The message to store: validated by the schema of POST …/messages, with well-formed text and without metadata reserved
 * for the system.
 * @throws {InvalidInputError} `BadRequest`, `TooLarge` over `maxBytes` of JSON in UTF-8
 */
export function newMessage(given: MessageInput, maxBytes: number, attributes?: Attributes): NewMessage {
  const input = parseInput(submitBody, { ...given, metadata: given.metadata ?? undefined });
  const { id = newId('msg') } = input;
  const parts = partsOf(input);
  const metadata = metadataOf(input.metadata);
  const model = input.model ?? choiceIn(metadata);
  if (model) metadata['model'] = record(model);
  refuseTooLarge(input.text === undefined ? 'parts' : 'text', parts, metadata, maxBytes);
  return {
    id,
    answerId: newId('msg'),
    parts: parts.map((data) => ({ id: newId('prt'), data })),
    metadata,
    model: model && chosenModel(model),
    attributes: storedAttributes(attributes),
  };
}

/** Names the largest part of the message as the field at fault. */
function refuseTooLarge(content: 'text' | 'parts', parts: PartData[], metadata: object, maxBytes: number): void {
  const [ofParts, ofMetadata] = [byteLength(JSON.stringify(parts)), byteLength(JSON.stringify(metadata))];
  const bytes = ofParts + ofMetadata;
  if (bytes <= maxBytes) return;
  const field = ofMetadata > ofParts ? 'metadata' : content;
  const expected = `a message of at most ${maxBytes} bytes (PERDURE_MAX_MESSAGE), not ${bytes}`;
  throw new InvalidInputError([{ field, expected }], 'TooLarge');
}

function partsOf({ text, parts = [] }: MessageInput): PartData[] {
  const given = text === undefined ? parts : [{ type: 'text' as const, text }];
  // Pages that send only a file add an empty text part.
  const kept = given.filter((part) => part.type !== 'text' || part.text !== '');
  if (kept.length === 0) throw bad(text === undefined ? 'parts' : 'text', 'a non-empty message');
  return cleanJson(kept) as unknown as PartData[];
}

function metadataOf(given: MessageInput['metadata']): Record<string, unknown> {
  const metadata = cleanJson(given ?? {}) as Record<string, unknown>;
  for (const name of RESERVED_METADATA) delete metadata[name];
  return metadata;
}

/** @throws {InvalidInputError} for attributes that cannot be stored */
export function storedAttributes(attributes: Attributes | undefined): Attributes | null {
  if (attributes === undefined) return null;
  const problem = attributesProblem(attributes);
  if (problem !== undefined) throw bad('attributes', problem);
  return cleanJson(attributes) as Attributes;
}

function choiceIn(metadata: Record<string, unknown>): ModelChoice | null {
  if (metadata['model'] === undefined || metadata['model'] === null) return null;
  return parseInput(modelChoice, metadata['model'], ['metadata', 'model']);
}

/** As it stands in the message's metadata. */
function record({ provider_id, model_id, variant }: ModelChoice): object {
  return { provider_id, model_id, ...(typeof variant === 'string' && { variant }) };
}

function bad(field: string, expected: string): InvalidInputError {
  return new InvalidInputError([{ field, expected }]);
}
