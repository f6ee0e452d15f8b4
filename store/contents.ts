import { z } from 'zod';
import { ContentUnavailableError } from '../domain/content-unavailable-error.ts';
import { PerdureError } from '../domain/errors.ts';
import { call, column, type Db } from './db.ts';
import { S3Bucket, type S3Options, type WholeContent } from './s3.ts';

/** Where the bytes of attachments are. */
interface Place {
  put(contentId: string, content: WholeContent): Promise<void>;
  /** Undefined: it has no such content. */
  open(contentId: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  remove(contentId: string): Promise<void>;
}

/** The name of the place that has a content. */
export const placeOfContent = z.enum(['postgres', 's3']);
type PlaceName = z.infer<typeof placeOfContent>;

/** A stored content, and where it is. */
export interface StoredContent {
  content_id: string;
  place: PlaceName;
  /** In bytes. */
  size: number;
}

/** Pieces in which Postgres stores a content: a statement stays short. */
const CHUNK_BYTES = 512 * 1024;
/** Pieces in which they are read: until V8 collects it, pg leaves ten times as much of a piece that comes in several packets. */
const READ_BYTES = 64 * 1024;

/** The contents of attachments: new ones are stored in the bucket if there is one, else in Postgres. */
export class Contents {
  private readonly db: Db;
  private readonly places: Partial<Record<PlaceName, Place>>;
  /** Where new ones are stored. */
  readonly place: PlaceName;

  constructor(db: Db, s3?: S3Options) {
    this.db = db;
    this.places = { postgres: new Chunks(db), ...(s3 && { s3: new S3Bucket(s3) }) };
    this.place = s3 ? 's3' : 'postgres';
  }

  /**
   * Stores a content. Until it is attached, it is unused: if this process dies, a worker deletes it after an hour.
   * @throws {ContentUnavailableError} the bucket does not take it
   */
  async put(contentId: string, content: WholeContent): Promise<void> {
    const { place } = this;
    await this.db.query('INSERT INTO attachment_contents (content_id, place) VALUES ($1, $2)', [contentId, place]);
    await this.placeOf(place).put(contentId, content);
  }

  /**
   * The bytes of a content, once the first ones are there. They must be read, or returned.
   * @throws {LostContentError} they are no longer stored, or in a bucket that is not configured; reading them: not all are
   * @throws {ContentUnavailableError} the bucket cannot be read now; so does reading them
   */
  async open({ content_id, place, size }: StoredContent, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const bytes = await this.places[place]?.open(content_id, signal);
    if (bytes === undefined) throw new LostContentError(content_id, place);
    return whole(bytes[Symbol.asyncIterator](), size, () => new LostContentError(content_id, place));
  }

  /**
   * Deletes up to `limit` contents that no attachment has.
   * @returns how many it has found
   * @throws the first error of a bucket, after the others are deleted; one that is away is asked once. What is left is due again
   * in a minute
   */
  async sweep(limit: number): Promise<number> {
    const unused = z.array(z.object({ content_id: z.string(), place: placeOfContent }));
    const found = await call(this.db, unused, 'claim_unused_contents', [limit]);
    const errors: unknown[] = [];
    let isAway = false;
    for (const { content_id, place } of found) {
      if (isAway && place === 's3') continue;
      await this.remove(content_id, place).catch((error: unknown) => {
        errors.push(error);
        isAway ||= error instanceof ContentUnavailableError && !error.isRefused;
      });
    }
    if (errors.length > 0) throw errors[0];
    return found.length;
  }

  private async remove(contentId: string, place: PlaceName): Promise<void> {
    await this.placeOf(place).remove(contentId);
    await call(this.db, z.unknown(), 'drop_content', [contentId]);
  }

  private placeOf(name: PlaceName): Place {
    const place = this.places[name];
    if (place === undefined) throw new Error('an attachment is in a bucket, and PERDURE_S3_URL is not set');
    return place;
  }
}

/** A content is no longer where it was stored. */
export class LostContentError extends PerdureError {
  constructor(contentId: string, place: PlaceName) {
    super('AttachmentNotFound', 'the bytes of this attachment are no longer stored', {
      cause: new Error(
        `${contentId} is not, or not whole, in ${place === 's3' ? 'the bucket of PERDURE_S3_URL' : 'Postgres'}`,
      ),
    });
  }
}

/** The same bytes. Fails if they end too early. Not a generator: of one that was not begun, `return` does nothing. */
function whole(
  bytes: AsyncIterator<Uint8Array>,
  size: number,
  isShort: () => LostContentError,
): AsyncIterableIterator<Uint8Array> {
  let left = size;
  const next = async () => {
    const read = await bytes.next();
    if (read.done !== true) left -= read.value.length;
    else if (left > 0) throw isShort();
    return read;
  };
  const end = async () => (await bytes.return?.()) ?? { done: true as const, value: undefined };
  const all = { next, return: end, [Symbol.asyncIterator]: () => all };
  return all;
}

/** The bytes in rows of Postgres. */
class Chunks implements Place {
  private readonly db: Db;

  constructor(db: Db) {
    this.db = db;
  }

  async put(contentId: string, { size, bytes }: WholeContent): Promise<void> {
    let n = 0;
    for await (const chunk of inChunks(bytes(), Math.min(CHUNK_BYTES, size))) {
      const values = [contentId, n, chunk];
      await this.db.query('INSERT INTO attachment_chunks (content_id, n, bytes) VALUES ($1, $2, $3)', values);
      n += 1;
    }
  }

  async open(contentId: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined> {
    const read = async (n: number, from: number) => {
      signal?.throwIfAborted();
      const sql = 'SELECT substr(bytes, $3, $4) FROM attachment_chunks WHERE content_id = $1 AND n = $2';
      const values = [contentId, n, from + 1, READ_BYTES];
      const [piece] = await column(this.db, z.instanceof(Uint8Array), sql, values);
      return piece;
    };
    const first = await read(0, 0);
    return first && piecesFrom(first, read);
  }

  /** Deleted with its other rows. */
  async remove(): Promise<void> {}
}

async function* piecesFrom(
  first: Uint8Array,
  read: (n: number, from: number) => Promise<Uint8Array | undefined>,
): AsyncGenerator<Uint8Array> {
  let [n, from] = [0, 0];
  for (let piece: Uint8Array | undefined = first; piece !== undefined; piece = await read(n, from)) {
    if (piece.length > 0) yield piece;
    from += READ_BYTES;
    if (piece.length < READ_BYTES || from >= CHUNK_BYTES) [n, from] = [n + 1, 0];
  }
}

/** The same bytes in pieces of equal length, but for the last one. A piece is valid until the next one is asked for. */
export async function* inChunks(bytes: AsyncIterable<Uint8Array>, chunkBytes: number): AsyncGenerator<Buffer> {
  const chunk = Buffer.alloc(chunkBytes);
  let length = 0;
  for await (const piece of bytes) {
    for (let at = 0; at < piece.length;) {
      const part = piece.subarray(at, at + chunkBytes - length);
      chunk.set(part, length);
      length += part.length;
      at += part.length;
      if (length < chunkBytes) continue;
      yield chunk;
      length = 0;
    }
  }
  if (length > 0) yield chunk.subarray(0, length);
}
