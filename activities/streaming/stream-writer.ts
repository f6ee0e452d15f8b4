import pLimit from 'p-limit';
import { isTemporary } from '../../store/is-temporary.ts';
import type { StreamState, StreamWrite } from '../../store/streams.ts';
import { type StatementKind, type Urgency, WritePace } from './write-pace.ts';

/** A longer batch is written alone, in characters. */
const LONGEST_SHARED = 64 * 1024;
/** A statement takes no further batch after this many characters. */
const LONGEST_STATEMENT = 512 * 1024;
/** Maximum of batches that are written alone at the same time: fewer than a worker has connections. */
const ALONE_AT_ONCE = 8;

/** How a shared statement stored a batch; undefined: it did not, so the batch is to be written alone. */
export type Landing = Promise<Exclude<StreamState, 'lost'> | undefined>;

/** A stream with content to write. */
export interface Stream {
  /** Takes what is to be written; undefined: nothing. Not asked again before the stream has been added again. */
  take(landing: Landing): StreamWrite | undefined;
}

/** The statements: one for several streams, and one for a batch that is written alone. */
export interface Statements {
  /** In the order of the batches; null: not stored. */
  shared(writes: readonly StreamWrite[]): Promise<(Exclude<StreamState, 'lost'> | null)[]>;
  alone(write: StreamWrite): Promise<StreamState>;
}

/** A batch in a shared statement. */
interface Entry {
  urgency: Urgency;
  write: StreamWrite;
  settle: PromiseWithResolvers<Awaited<Landing>>;
}

/**
 * Writes what all streams of a worker have to say in one statement per tick (`WritePace`).
 *
 * A stream delays no other: a long batch, one whose run is locked, and each batch of a statement that was refused are written
 * alone.
 */
export class StreamWriter {
  private readonly statements: Statements;
  private readonly pace: WritePace;
  /** In the order in which they were added. */
  private readonly waiting = new Map<Stream, Urgency>();
  private readonly limit = pLimit(ALONE_AT_ONCE);
  private timer: NodeJS.Timeout | undefined;
  private soon: NodeJS.Immediate | undefined;
  /** When the timer fires; infinite: there is none. */
  private wakesAt = Infinity;

  constructor(statements: Statements, { ms }: { ms: number }) {
    this.statements = statements;
    this.pace = new WritePace(ms);
  }

  /** Writes a stream at the next tick, or earlier if it is urgent. */
  add(stream: Stream, urgency: Urgency): void {
    if (this.waiting.get(stream) === urgency) return;
    this.waiting.set(stream, urgency);
    this.wake(this.pace.due(urgency));
  }

  /** The stream is not to be written any more. */
  remove(stream: Stream): void {
    this.waiting.delete(stream);
  }

  /** Writes a batch that a shared statement has not stored. */
  writeAlone(write: StreamWrite): Promise<StreamState> {
    return this.limit(() => this.statements.alone(write));
  }

  private plan(): void {
    for (const urgency of new Set(this.waiting.values())) this.wake(this.pace.due(urgency));
  }

  private wake(at: number): void {
    if (at >= this.wakesAt) return;
    clearTimeout(this.timer);
    this.wakesAt = at;
    const wait = at - performance.now();
    // What other streams receive in the same turn of the event loop goes into the same statement.
    if (wait <= 0) this.soon ??= setImmediate(() => this.begin());
    else this.timer = setTimeout(() => this.begin(), wait);
  }

  private begin(): void {
    clearTimeout(this.timer);
    clearImmediate(this.soon);
    this.soon = undefined;
    this.wakesAt = Infinity;
    const now = performance.now();
    const entries = this.takeDue(now);
    if (entries.length > 0) void this.write(entries, now);
    this.plan();
  }

  /** The batches of a statement. */
  private takeDue(now: number): Entry[] {
    const entries: Entry[] = [];
    let length = 0;
    for (const [stream, urgency] of this.waiting) {
      if (length > LONGEST_STATEMENT) break;
      if (this.pace.due(urgency) > now) continue;
      this.waiting.delete(stream);
      const settle: Entry['settle'] = Promise.withResolvers();
      const write = stream.take(settle.promise);
      if (write === undefined) continue;
      if (write.batch.length > LONGEST_SHARED) {
        settle.resolve(undefined);
        continue;
      }
      length += write.batch.length;
      entries.push({ urgency, write, settle });
    }
    return entries;
  }

  private kindOf(entries: readonly Entry[]): StatementKind {
    if (this.waiting.size === 0) return 'all';
    return entries.every(({ urgency }) => urgency === 'first') ? 'first' : 'some';
  }

  private async write(entries: readonly Entry[], now: number): Promise<void> {
    const kind = this.kindOf(entries);
    this.pace.begin(kind, now);
    try {
      const landed = await this.statements.shared(entries.map(({ write }) => write));
      for (const [index, { settle }] of entries.entries()) settle.resolve(landed[index] ?? undefined);
    } catch (error) {
      // If Postgres is away, each stream tries again by itself. Otherwise each batch gets an answer of its own.
      for (const { settle } of entries) {
        if (isTemporary(error)) settle.reject(error);
        else settle.resolve(undefined);
      }
    } finally {
      this.pace.end(kind, performance.now() - now);
      this.plan();
    }
  }
}
