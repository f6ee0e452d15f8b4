import type { z } from 'zod';
import { newId } from '../../domain/ids.ts';
import { ACCEPTED_FILES } from '../../domain/media-type.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { isBase64 } from '../../wire/requests.ts';
import { type exportedAttachment, exportedContent } from '../../wire/transfer.ts';
import type { PutInTurn } from '../uploads/put-in-turn.ts';
import { Spool } from '../uploads/spool.ts';
import { parsed } from './import-check.ts';
import type { ParsedLine } from './line-reader.ts';

/** The file of an import: the line of an attachment, and those of its content. */
interface ImportedFile {
  /** Its line. */
  field: string;
  attachment: z.output<typeof exportedAttachment>;
  lines: AsyncIterable<ParsedLine>;
}

/**
 * Receives and stores the content of an attachment. It is unused until the import attaches it: a worker deletes that of an import
 * which is refused.
 * @returns the id of the content
 * @throws {InvalidInputError} `InvalidLine` if it is not what the attachment says, `TooLarge`
 * @throws {LeftTheLineError} `signal` fired while it waited for others
 */
export async function receiveFile(
  { put, maxBytes }: { put: PutInTurn; maxBytes: number },
  { field, attachment, lines }: ImportedFile,
  signal: AbortSignal | undefined,
): Promise<string> {
  const { size, digest, media_type: declared } = attachment;
  const refusal = (name: string, expected: string, code: 'InvalidLine' | 'TooLarge' = 'InvalidLine') =>
    new InvalidInputError([{ field: `${field}.${name}`, expected }], code);
  const otherSize = () => refusal('size', 'the number of bytes in the lines of content after it');
  if (size > maxBytes) throw refusal('size', `at most ${maxBytes} bytes (PERDURE_MAX_FILE)`, 'TooLarge');
  await using file = await Spool.receive(bytesOf(lines), { maxBytes: size, declared, tooLarge: otherSize });
  if (file.size !== size) throw otherSize();
  if (file.digest !== digest) throw refusal('digest', 'the SHA-256 of its content');
  if (file.mediaType !== declared) {
    const expected = file.mediaType === undefined ? ACCEPTED_FILES : `"${file.mediaType}", as its content shows`;
    throw refusal('media_type', expected);
  }
  const contentId = newId('att');
  await put(contentId, { digest, size, bytes: () => file.bytes() }, signal);
  return contentId;
}

async function* bytesOf(lines: AsyncIterable<ParsedLine>): AsyncGenerator<Uint8Array> {
  for await (const { number, value } of lines) {
    const { data } = parsed(exportedContent, value, `line ${number}`);
    if (!isBase64(data))
      throw new InvalidInputError([{ field: `line ${number}.data`, expected: 'base64' }], 'InvalidLine');
    yield Buffer.from(data, 'base64');
  }
}
