import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { Logger } from 'pino';
import type { KeepFile } from '../../agent/mcp/call-output.ts';
import { attachmentUrl } from '../../domain/attachments.ts';
import { MediaTypeReader } from '../../domain/media-type.ts';
import { attachFile } from '../../store/attachments.ts';
import type { Contents } from '../../store/contents.ts';

/** Keeps files that tools return as attachments of their session, of the types and up to the size that users' files may have. */
export function fileKeeper({
  db,
  contents,
  log,
  maxBytes,
}: {
  db: pg.Pool;
  contents: Contents;
  log: Logger;
  maxBytes: number;
}): KeepFile {
  const put: Contents['put'] = (id, content) => contents.put(id, content);
  return async (sessionId, { bytes, mediaType: declared, name: filename }) => {
    const reader = new MediaTypeReader();
    reader.take(bytes);
    const mediaType = reader.end(declared);
    const size = bytes.length;
    if (mediaType === undefined || size === 0 || size > maxBytes) return { problem: 'of another type, or too large' };
    const digest = createHash('sha256').update(bytes).digest('hex');
    const file = { digest, size, mediaType, filename, bytes: () => inOnePiece(bytes) };
    // The call was carried out: its result is not lost with a file.
    const attached = await attachFile({ db, put }, sessionId, file).catch((err: unknown) => {
      log.warn({ err, session: sessionId }, 'a file that a tool returned could not be stored');
    });
    if (!attached) return { problem: 'it could not be stored', isAway: true };
    return { mediaType: attached.media_type, url: attachmentUrl(attached.attachment_id) };
  };
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
