import { attachmentOf, attachmentUrl, isTextType } from '../../domain/attachments.ts';
import { PerdureError } from '../../domain/errors.ts';
import { ACCEPTED_FILES } from '../../domain/media-type.ts';
import { modalityOf } from '../../domain/model-info.ts';
import { attachFile, type AttachmentRow, findAttachments } from '../../store/attachments.ts';
import type { Contents } from '../../store/contents.ts';
import type { Db } from '../../store/db.ts';
import { readOwner } from '../../store/sessions.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import type { PutInTurn } from './put-in-turn.ts';
import { Receiving } from './receiving.ts';
import { Spool } from './spool.ts';

/** A file to attach. */
export interface AttachmentInput {
  content: AsyncIterable<Uint8Array>;
  /** At most 256 characters. */
  filename?: string | undefined;
  /** What its sender says; of images and PDFs the content decides. */
  mediaType?: string | undefined;
}

/** A part of a message. */
interface FilePart {
  type: string;
  mediaType?: unknown;
}

/** A file of a session. A file part of a message refers to it by `url`. */
export interface Attachment {
  attachment_id: string;
  media_type: string;
  filename: string | null;
  /** In bytes. */
  size: number;
  url: string;
}

/** An attachment with its bytes, which must be read, or returned. */
export interface AttachmentContent extends Attachment {
  content: AsyncIterable<Uint8Array>;
}

/** Uploads that are received or stored at a time: each has a temporary file. */
const AT_ONCE = 16;
/** Of one user. */
const OF_A_USER = 4;

/** Stores and reads the files of sessions. */
export class Attachments {
  private readonly db: Db;
  private readonly contents: Contents;
  private readonly put: PutInTurn;
  private readonly maxBytes: number;
  private readonly receiving = new Receiving(AT_ONCE, OF_A_USER);

  constructor(deps: { db: Db; contents: Contents; put: PutInTurn; maxBytes: number }) {
    ({ db: this.db, contents: this.contents, put: this.put, maxBytes: this.maxBytes } = deps);
  }

  /**
   * @param session its id, or what opens it once the file is stored
   * @throws {PerdureError} `SessionNotFound`, `TooLarge`, `BadRequest` for a type that is not accepted, `Unavailable` if the
   * disk is full, the bucket does not take it, or it arrives slowly while others wait
   * @throws {LeftTheLineError} `signal` fired while it waited for others
   */
  add(
    user: string,
    session: string | (() => Promise<string>),
    file: AttachmentInput,
    signal?: AbortSignal,
  ): Promise<Attachment> {
    const receive = (content: AttachmentInput['content']) => this.receive(session, { ...file, content }, signal);
    return this.receiving.run({ user, signal }, file.content, receive);
  }

  private async receive(
    session: string | (() => Promise<string>),
    { content, filename, mediaType }: AttachmentInput,
    signal: AbortSignal | undefined,
  ): Promise<Attachment> {
    const tooLarge = () =>
      new PerdureError('TooLarge', `file: expected at most ${this.maxBytes} bytes (PERDURE_MAX_FILE)`);
    await using file = await Spool.receive(content, { maxBytes: this.maxBytes, declared: mediaType, tooLarge });
    if (file.size === 0) throw badFile('one that is not empty');
    const type = file.mediaType;
    if (type === undefined) throw badFile(ACCEPTED_FILES);
    const put: Contents['put'] = (id, whole) => this.put(id, whole, signal);
    const { digest, size } = file;
    const named = { digest, size, mediaType: type, filename, bytes: () => file.bytes() };
    const attached = await attachFile({ db: this.db, put }, session, named);
    if (!attached) throw sessionNotFound();
    return viewOf(attached);
  }

  /** @throws {PerdureError} `AttachmentNotFound`, also if its bytes are lost; `Unavailable` if the bucket cannot be read now */
  async read(sessionId: string, attachmentId: string): Promise<AttachmentContent> {
    const [found] = attachmentId.includes('\0') ? [] : await findAttachments(this.db, sessionId, [attachmentId]);
    if (!found) throw new PerdureError('AttachmentNotFound', 'there is no such attachment in this session');
    return { ...viewOf(found), content: await this.contents.open(found) };
  }

  /**
   * Checks that a session has the attachments that a message refers to, and gives the parts the media types of their files.
   * @throws {PerdureError} `SessionNotFound` for another user's session, `BadRequest` naming the part, also if its media type is of
   * another kind than the file
   * @returns whether a part had another media type
   */
  async require(userId: string, sessionId: string, parts: readonly FilePart[]): Promise<boolean> {
    const named = parts.map((part) => attachmentOf(part));
    const ids = named.filter((id) => id !== undefined);
    if (ids.length === 0) return false;
    // Whether another user's session has an attachment must not be told, nor its type.
    if ((await readOwner(this.db, sessionId)) !== userId) throw sessionNotFound();
    const found = new Map(
      (await findAttachments(this.db, sessionId, ids)).map((row) => [row.attachment_id, row.media_type]),
    );
    const missing = named.findIndex((id) => id !== undefined && !found.has(id));
    if (missing >= 0) {
      const expected = 'the URL of an attachment of this session';
      throw new InvalidInputError([{ field: `parts[${missing}].url`, expected }]);
    }
    const changed = parts.map((part, at) => giveType(part, found.get(named[at] ?? ''), `parts[${at}].mediaType`));
    return changed.includes(true);
  }
}

/**
 * Returns whether the part had another type.
 * @throws {InvalidInputError} that is of another kind than the file's
 */
function giveType(part: FilePart, type: string | undefined, field: string): boolean {
  if (type === undefined || part.mediaType === type) return false;
  const kind = kindOf(String(part.mediaType));
  if (kind !== undefined && kind !== kindOf(type)) {
    throw new InvalidInputError([{ field, expected: `"${type}", which the file is` }]);
  }
  part.mediaType = type;
  return true;
}

function kindOf(mediaType: string): string | undefined {
  return isTextType(mediaType) ? 'text' : modalityOf(mediaType);
}

function viewOf({ attachment_id, media_type, filename, size }: AttachmentRow): Attachment {
  return { attachment_id, media_type, filename, size, url: attachmentUrl(attachment_id) };
}

function badFile(expected: string): PerdureError {
  return new PerdureError('BadRequest', `file: expected ${expected}`);
}
