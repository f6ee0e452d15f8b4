import { z } from 'zod';

/** What happened to a session, for those who then read it. Ids only, never content. */
export interface Pointer {
  session: string;
  run?: number;
  /** stream: the answer has grown; status: the session's status has changed; abort: that run is to stop. */
  kind: 'stream' | 'status' | 'abort';
}

/** What a listener is told: a pointer, or that pointers may have been missed, so that it reads again. */
export type BusEvent = Pointer | { kind: 'reconnected' };

/**
 * Pointers from any process to every process. Delivery is at most once and unordered between sessions: who listens
 * reads what is stored, and reads it again when it is told `reconnected` and from time to time.
 */
export interface Bus {
  /** Hands a pointer over and returns at once. Never throws, never waits. */
  publish(pointer: Pointer): void;
  /** Calls `listener` for every pointer of any process, this one included. The answer ends it. */
  subscribe(listener: (event: BusEvent) => void): () => void;
  /** What it has done so far, where it counts: batches sent, and times that listening has begun. */
  readonly counts?: Readonly<{ batches: number; listenings: number }>;
  /** Sends what is still to be sent, and ends. */
  close(): Promise<void>;
}

const pointer = z.object({
  session: z.string(),
  run: z.int().optional(),
  kind: z.enum(['stream', 'status', 'abort']),
});
const payload = z.array(pointer);

/** Reads what `pack` has written; undefined for anything else. */
export function unpack(text: string): Pointer[] | undefined {
  try {
    return payload.parse(JSON.parse(text)) as Pointer[];
  } catch {
    return undefined;
  }
}

/**
 * Pointers as payloads of at most `maxBytes`, equal ones merged, in the order in which each was first seen. Ids are
 * ASCII, so a character is a byte.
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

function written({ session, run, kind }: Pointer): string {
  return JSON.stringify(run === undefined ? { session, kind } : { session, run, kind });
}
