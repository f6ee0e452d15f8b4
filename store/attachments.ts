import { z } from 'zod';
import { keptName } from '../domain/attachments.ts';
import { newId } from '../domain/ids.ts';
import { type Contents, placeOfContent } from './contents.ts';
import { call, type Db, many, maybe } from './db.ts';
import type { WholeContent } from './s3.ts';

const attachmentRow = z.object({
  attachment_id: z.string(),
  content_id: z.string(),
  media_type: z.string(),
  filename: z.string().nullable(),
  /** In bytes. */
  size: z.number(),
});

/** A file that belongs to a session. */
export type AttachmentRow = z.infer<typeof attachmentRow>;

const placedAttachment = z.object({ ...attachmentRow.shape, place: placeOfContent });

/** The same, with where its bytes are. */
export type PlacedAttachment = z.infer<typeof placedAttachment>;

/**
 * Makes a stored content an attachment of a session; returns the one that has the same bytes if there is one.
 * @param given.digest SHA-256 of the content, in hex
 * @returns undefined: there is no such session
 */
export function attach(
  db: Db,
  sessionId: string,
  given: Omit<AttachmentRow, 'content_id'> & { content_id: string; digest: string },
): Promise<AttachmentRow | undefined> {
  const { attachment_id, content_id, digest, media_type, filename, size } = given;
  return call(db, maybe(attachmentRow), 'attach', [
    ...[sessionId, attachment_id, content_id, digest, media_type, filename, size],
  ]);
}

/** A file that was received whole. */
export interface WholeFile extends WholeContent {
  /** One that sessions keep. */
  mediaType: string;
  filename: string | undefined;
}

/**
 * Stores a file as an attachment of a session. If the session has these bytes already, its attachment is returned; if
 * its id is given, nothing is stored, either.
 * @param session its id, or what opens it once the file is stored
 * @returns undefined: there is no such session
 */
export async function attachFile(
  { db, put }: { db: Db; put: Contents['put'] },
  session: string | (() => Promise<string>),
  { digest, size, mediaType: media_type, filename, bytes }: WholeFile,
): Promise<AttachmentRow | undefined> {
  const known = typeof session === 'string' ? await attachmentWithDigest(db, session, digest) : undefined;
  if (known) return known;
  const row = { attachment_id: newId('att'), content_id: newId('att'), digest, size, media_type };
  await put(row.content_id, { digest, size, bytes });
  const sessionId = typeof session === 'string' ? session : await session();
  return attach(db, sessionId, { ...row, filename: keptName(filename) });
}

/** The attachment of a session with these bytes. */
async function attachmentWithDigest(db: Db, sessionId: string, digest: string): Promise<AttachmentRow | undefined> {
  const sql = `SELECT attachment_id, content_id, media_type, filename, size
                 FROM attachments WHERE session_id = $1 AND digest = decode($2, 'hex')`;
  const [found] = await many(db, attachmentRow, sql, [sessionId, digest]);
  return found;
}

/** Those of a session's attachments that have one of the ids. */
export function findAttachments(db: Db, sessionId: string, ids: readonly string[]): Promise<PlacedAttachment[]> {
  const sql = `SELECT attachment_id, content_id, media_type, filename, size, place
                 FROM attachments JOIN attachment_contents USING (content_id)
                WHERE session_id = $1 AND attachment_id = ANY ($2)`;
  return many(db, placedAttachment, sql, [sessionId, ids]);
}
