import type { Json } from '../../domain/text.ts';
import type { CallResult } from './call-result.ts';

/** A file in a result. */
export interface ResultFile {
  bytes: Uint8Array;
  /** What the server says. */
  mediaType: string;
  name?: string | undefined;
}

/**
 * Keeps a file of a result with its session.
 * @returns the file's type and URL, `perdure:…`, or why it is not kept; `isAway`: its store failed, so the others are not tried
 */
export type KeepFile = (
  sessionId: string,
  file: ResultFile,
) => Promise<{ mediaType: string; url: string } | { problem: string; isAway?: true }>;

type Block = CallResult['content'][number];

/** Files of a result that are kept. */
const MOST_FILES = 32;

/**
 * The output of a call: what `structuredContent` says, or the text, if there is nothing else; otherwise `{ content, structured? }`
 * with the parts of the result in order. Of a file it has the URL.
 * @throws {Error} with the result's text, if the result is an error
 */
export async function callOutput(result: CallResult, keep: (file: ResultFile) => ReturnType<KeepFile>): Promise<Json> {
  const { content, structuredContent: structured, isError } = result;
  const texts = content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
  const text = texts.join('\n\n');
  if (isError === true) throw new Error(text === '' ? 'the tool failed without saying why' : text);
  if (texts.length === content.length) return (structured as Json | undefined) ?? text;
  let files = 0;
  let away: Awaited<ReturnType<KeepFile>> | undefined;
  const keepSome: typeof keep = async (file) => {
    files += 1;
    if (files > MOST_FILES) return { problem: 'one of too many' };
    const kept = away ?? (await keep(file));
    if ('isAway' in kept) away = kept;
    return kept;
  };
  const parts: Json[] = [];
  for (const block of content) parts.push(await partOf(block, keepSome));
  return { content: parts, ...(structured && { structured: structured as Json }) };
}

async function partOf(block: Block, keep: (file: ResultFile) => ReturnType<KeepFile>): Promise<Json> {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'image':
    case 'audio':
      return filePart({ bytes: Buffer.from(block.data, 'base64'), mediaType: block.mimeType }, keep);
    case 'resource_link': {
      const { type, uri, name, mimeType: mediaType, description } = block;
      return {
        type,
        uri,
        name,
        ...(mediaType !== undefined && { mediaType }),
        ...(description !== undefined && { description }),
      };
    }
    case 'resource': {
      const { uri, mimeType, ...resource } = block.resource;
      const mediaType = mimeType ?? ('text' in resource ? 'text/plain' : 'application/octet-stream');
      if ('text' in resource) return { type: 'resource', uri, mediaType, text: resource.text };
      const file = { bytes: Buffer.from(resource.blob, 'base64'), mediaType, name: uri.split('/').at(-1) };
      return { uri, ...(await filePart(file, keep)) };
    }
  }
}

async function filePart(file: ResultFile, keep: (file: ResultFile) => ReturnType<KeepFile>) {
  const kept = await keep(file);
  if ('url' in kept) return { type: 'file', ...kept };
  return { type: 'file', mediaType: file.mediaType, size: file.bytes.length, note: `not kept: ${kept.problem}` };
}
