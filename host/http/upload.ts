import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy, type BusboyHeaders } from '@fastify/busboy';
import type { AttachmentInput } from '../../client/uploads/attachments.ts';
import { badBody, discardRest, plainBytesOf, refuseEncoding } from './read-body.ts';

const MULTIPART = /^multipart\/form-data\b/i;

/**
 * The file of a request: its body, or the first file of a form. The bytes are read as they arrive.
 * @throws {PerdureError} `BadRequest` for a content encoding, a form without a file, or no body
 */
export async function uploadOf(request: Request): Promise<AttachmentInput> {
  refuseEncoding(request);
  const { headers, body } = request;
  if (body === null) throw badBody('a file');
  const type = headers.get('content-type') ?? undefined;
  if (type === undefined || !MULTIPART.test(type)) return { content: freed(plainBytesOf(request)), mediaType: type };
  return fileOfForm(body, { 'content-type': type });
}

/**
 * The same pieces, each valid until the next one is asked for. Then its memory is given back, which garbage collections would do tens
 * of megabytes later.
 */
async function* freed(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    yield piece;
    const { buffer, byteLength } = piece;
    // Else it has a part of a buffer that others use, too.
    if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
  }
}

/** The bytes of a form's file. @throws {PerdureError} `BadRequest` if the form ends before the file does */
async function* wholeOf(content: Readable): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of content) yield piece as Uint8Array;
  } catch {
    throw badBody('a whole form');
  }
}

function formOf(headers: BusboyHeaders) {
  try {
    return new Busboy({ headers, limits: { files: 1, fields: 20, fieldSize: 64 * 1024 } });
  } catch {
    throw badBody('a form with a boundary');
  }
}

function fileOfForm(body: ReadableStream<Uint8Array>, headers: BusboyHeaders): Promise<AttachmentInput> {
  const { promise, resolve, reject } = Promise.withResolvers<AttachmentInput>();
  const form = formOf(headers);
  let file: Readable | undefined;
  form.on('file', (_field, content, filename, _encoding, mediaType) => {
    file = content;
    // Its reader gets the error; without a listener one that comes before would end the process.
    content.on('error', () => {});
    // Nobody reads the rest of a file that is refused.
    content.on('close', () => content.readableEnded || form.destroy());
    resolve({ content: wholeOf(content), filename, mediaType });
  });
  const over = pipeline(body.values({ preventCancel: true }), form).finally(() => discardRest(body));
  over.then(
    () => reject(badBody('a form with a file')),
    () => {
      // A file that breaks off must not be taken for a whole one.
      file?.destroy(new Error('the form broke off'));
      reject(badBody('a whole form'));
    },
  );
  return promise;
}
