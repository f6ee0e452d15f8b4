import { createHash } from 'node:crypto';
import { attachmentUrl } from '../../domain/attachments.ts';
import { attachFile } from '../../store/attachments.ts';
import type { Contents } from '../../store/contents.ts';
import type { Db } from '../../store/db.ts';
import type { WholeContent } from '../../store/s3.ts';

/** Bytes, as they are stored. */
export function wholeContent(bytes: Buffer): WholeContent {
  async function* pieces() {
    yield bytes;
  }
  return { digest: createHash('sha256').update(bytes).digest('hex'), size: bytes.length, bytes: pieces };
}

/** Attaches bytes to a session. Returns the part of a message that refers to them. */
export async function attached(
  { db, contents }: { db: Db; contents: Contents },
  sessionId: string,
  { bytes, mediaType, filename }: { bytes: Buffer; mediaType: string; filename?: string },
): Promise<{ type: 'file'; mediaType: string; url: string }> {
  const put: Contents['put'] = (id, content) => contents.put(id, content);
  const row = await attachFile({ db, put }, sessionId, { ...wholeContent(bytes), mediaType, filename });
  if (row === undefined) throw new Error(`there is no session ${sessionId}`);
  return { type: 'file', mediaType, url: attachmentUrl(row.attachment_id) };
}

/**
 * Gives the contents of a session in a bucket an `x` at the end of their ids: workers that have just read them have to read them again.
 * The objects keep their names.
 */
export async function forgetContents(db: Db, sessionId: string): Promise<void> {
  await db.query(
    `WITH moved AS (
       UPDATE attachments SET content_id = content_id || 'x' WHERE session_id = $1 RETURNING content_id
     )
     INSERT INTO attachment_contents (content_id, place) SELECT content_id, 's3' FROM moved`,
    [sessionId],
  );
}
