import { z } from 'zod';

/** A notification that a session changed, so that its readers read it. Ids only, never content. */
export interface Pointer {
  session: string;
  run?: number;
  /** stream: the answer has grown; status: the session's status has changed; abort: the run must stop. */
  kind: 'stream' | 'status' | 'abort';
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
  kind: z.enum(['stream', 'status', 'abort']),
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

function written({ session, run, kind }: Pointer): string {
  return JSON.stringify(run === undefined ? { session, kind } : { session, run, kind });
}
