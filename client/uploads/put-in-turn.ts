import type { Contents } from '../../store/contents.ts';
import type { WholeContent } from '../../store/s3.ts';
import { Limiter } from '../wait/limiter.ts';

/** Contents that are stored in Postgres at a time, so that uploads and imports leave connections for messages. */
const STORED_AT_ONCE = 4;

/**
 * Stores a content.
 * @throws {ContentUnavailableError} the bucket does not take it
 * @throws {LeftTheLineError} `signal` fired while it waited for others
 */
export type PutInTurn = (contentId: string, content: WholeContent, signal?: AbortSignal) => Promise<void>;

/** How all of a client's contents are stored: four at a time in Postgres, at once in a bucket. */
export function putInTurn(contents: Contents): PutInTurn {
  if (contents.place === 's3') return (id, content) => contents.put(id, content);
  const storing = new Limiter(STORED_AT_ONCE);
  return (id, content, signal) => storing.run(() => contents.put(id, content), signal);
}
