import {
  type LanguageModelStreamPart,
  type TextStreamPart,
  toUIMessageChunk,
  type ToolSet,
  type UIMessageChunk,
} from 'ai';
import { cleanJson } from '../../domain/text.ts';

/** A part of a model call, by its type. */
export type PartOf<T extends LanguageModelStreamPart['type']> = Extract<LanguageModelStreamPart, { type: T }>;

/** The SDK's chunk for a part, with cleaned strings; none if a reader need not know of the part. */
export function sdkChunks(part: Extract<LanguageModelStreamPart, TextStreamPart<ToolSet>>): UIMessageChunk[] {
  const chunk = toUIMessageChunk(part, { sendSources: true });
  return chunk ? [cleanJson(chunk) as UIMessageChunk] : [];
}

type Metadata = Record<string, Record<string, never>>;

/** The provider's metadata of a part, cleaned. */
export function metadataOf(part: { providerMetadata?: unknown }): { providerMetadata?: Metadata } {
  return part.providerMetadata ? { providerMetadata: cleanJson(part.providerMetadata) as Metadata } : {};
}
