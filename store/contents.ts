import { z } from 'zod';
import { call, column, type Db } from './db.ts';
import { S3Bucket, type S3Options } from './s3.ts';

/** Where the bytes of attachments are. */
interface Place {
  put(contentId: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  get(contentId: string, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  remove(contentId: string): Promise<void>;
}

/** The name of the place that has a content. */
export const placeOfContent = z.enum(['postgres', 's3']);
type PlaceName = z.infer<typeof placeOfContent>;

/** A stored content, and where it is. */
export interface StoredContent {
  content_id: string;
  place: PlaceName;
}

/** Pieces in which Postgres stores a content: a statement stays short, and a reader holds one of them. */
const CHUNK_BYTES = 512 * 1024;

/** The contents of attachments: new ones are stored in the bucket if there is one, else in Postgres. */
export class Contents {
  private readonly db: Db;
  private readonly places: Partial<Record<PlaceName, Place>>;

  constructor(db: Db, s3?: S3Options) {
    this.db = db;
    this.places = { postgres: new Chunks(db), ...(s3 && { s3: new S3Bucket(s3) }) };
  }

  /** Stores a content. Until it is attached, it is unused: if this process dies, a worker deletes it after an hour. */
  async put(contentId: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const place: PlaceName = this.places.s3 ? 's3' : 'postgres';
    await this.db.query('INSERT INTO attachment_contents (content_id, place) VALUES ($1, $2)', [contentId, place]);
    await this.placeOf(place).put(contentId, bytes);
  }

  /** @throws {Error} if the content is in a bucket and none is configured, or the bucket cannot be read */
  async *get({ content_id, place }: StoredContent, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    yield* this.placeOf(place).get(content_id, signal);
  }

  /**
   * Deletes up to `limit` contents that no attachment has.
   * @returns how many it has found
   * @throws the first error of a bucket, after the others are deleted; what is left is due again in a minute
   */
  async sweep(limit: number): Promise<number> {
    const unused = z.array(z.object({ content_id: z.string(), place: placeOfContent }));
    const found = await call(this.db, unused, 'claim_unused_contents', [limit]);
    const errors: unknown[] = [];
    for (const { content_id, place } of found) {
      await this.remove(content_id, place).catch((error: unknown) => errors.push(error));
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

/** The bytes in rows of Postgres. */
class Chunks implements Place {
  private readonly db: Db;

  constructor(db: Db) {
    this.db = db;
  }

  async put(contentId: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    let n = 0;
    for await (const chunk of inChunks(bytes)) {
      const values = [contentId, n, chunk];
      await this.db.query('INSERT INTO attachment_chunks (content_id, n, bytes) VALUES ($1, $2, $3)', values);
      n += 1;
    }
  }

  async *get(contentId: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    for (let n = 0; ; n += 1) {
      signal?.throwIfAborted();
      const sql = 'SELECT bytes FROM attachment_chunks WHERE content_id = $1 AND n = $2';
      const [chunk] = await column(this.db, z.instanceof(Uint8Array), sql, [contentId, n]);
      if (chunk === undefined) return;
      yield chunk;
    }
  }

  /** Deleted with its other rows. */
  async remove(): Promise<void> {}
}

/** The same bytes in pieces of equal length, but for the last one. */
async function* inChunks(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let held: Uint8Array[] = [];
  let length = 0;
  for await (const piece of bytes) {
    held.push(piece);
    length += piece.length;
    if (length < CHUNK_BYTES) continue;
    const all = Buffer.concat(held);
    let at = 0;
    for (; at + CHUNK_BYTES <= all.length; at += CHUNK_BYTES) yield all.subarray(at, at + CHUNK_BYTES);
    held = [all.subarray(at)];
    length = all.length - at;
  }
  if (length > 0) yield Buffer.concat(held);
}
