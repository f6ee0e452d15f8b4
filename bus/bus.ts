import { createHash } from 'node:crypto';
import { z } from 'zod';

/**
 * - stream: the answer has grown.
 * - status: the session's status has changed.
 * - accepted: a message was accepted, and a worker may begin its run.
 * - answered: what the run waited for has come, and a worker may go on with it.
 * - abort: the run must stop.
 * - evicted: the session's workflow is no longer in the cache of the worker that had it; of any session: a worker was lost.
 */
const POINTER_KINDS = ['stream', 'status', 'accepted', 'answered', 'abort', 'evicted'] as const;
export type PointerKind = (typeof POINTER_KINDS)[number];

/** The session of a pointer that is about all of them. No session has this id. */
export const ANY_SESSION = '*';

/** A notification that a session changed, so that its readers read it. Ids only, never content. */
export interface Pointer {
  session: string;
  run?: number;
  kind: PointerKind;
  /** With `stream`: the answer is complete, and its run is over. */
  over?: true;
  /** The `user:` state of this user, or the rules of a project of theirs, have changed, which other sessions see: `userMark`. */
  user?: string;
}

/** Stands for a user in a pointer: 16 hexadecimal digits, whatever the user's id is. */
export function userMark(user: string): string {
  return createHash('sha256').update(user).digest('hex').slice(0, 16);
}

/** Stops the work of runs that were ended in their rows, and tells their readers. */
export function publishEnded(bus: Bus, runs: readonly { session_id: string; run_seq: number }[]): void {
  for (const { session_id: session, run_seq: run } of runs) {
    bus.publish({ session, run, kind: 'abort' });
    bus.publish({ session, run, kind: 'stream', over: true });
    bus.publish({ session, kind: 'status' });
  }
}

/** What listeners receive: a pointer, or `reconnected`: pointers may have been missed. */
export type BusEvent = Pointer | { kind: 'reconnected' };

/**
 * Sends pointers from any process to every process. Delivery is at most once and unordered between sessions: listeners
 * read the rows, and check for changes periodically and after `reconnected`.
 */
export interface Bus {
  /** Sends a pointer asynchronously. Never throws, never waits. */
  publish(pointer: Pointer): void;
  /**
   * Whether a batch may be sent at once because few were sent lately. If so, it counts as sent: the caller's next statement
   * sends the pointers itself, which saves a round trip (`store/sql/notify.sql`). Missing if the bus is not Postgres'.
   */
  takeBatch?(): boolean;
  /** Calls `listener` for every pointer of any process, this one included, until the returned function is called. */
  subscribe(listener: (event: BusEvent) => void): () => void;
  /** Number of batches sent, and of times that listening began. */
  readonly counts?: Readonly<{ batches: number; listenings: number }>;
  /** Sends the remaining pointers, then closes. */
  close(): Promise<void>;
}

const pointer = z.object({
  session: z.string(),
  run: z.int().optional(),
  kind: z.enum(POINTER_KINDS),
  over: z.literal(true).optional(),
  user: z.string().optional(),
});
const payload = z.array(pointer);

/** Parses what `pack` wrote; undefined for anything else. */
export function unpack(text: string): Pointer[] | undefined {
  try {
    return payload.parse(JSON.parse(text)) as Pointer[];
  } catch {
    return undefined;
  }
}

/**
 * Pointers as payloads of at most `maxBytes`, without duplicates, in the order of their first occurrence. Ids are ASCII, so
 * a character is a byte.
 */
export function pack(pointers: Iterable<Pointer>, maxBytes: number): string[] {
  const payloads: string[] = [];
  let current = '';
  for (const text of new Set(Array.from(pointers, written))) {
    if (current !== '' && current.length + text.length + 2 > maxBytes) {
      payloads.push(`[${current}]`);
      current = '';
    }
    current = current === '' ? text : `${current},${text}`;
  }
  return current === '' ? payloads : [...payloads, `[${current}]`];
}

function written({ session, run, kind, over, user }: Pointer): string {
  return JSON.stringify({ session, run, kind, over, user });
}
