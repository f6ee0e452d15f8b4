import type { ChunksToRows } from '../../agent/parts/chunks-to-rows.ts';
import type { StreamState, StreamWrite } from '../../store/streams.ts';
import type { Landing, Stream, StreamWriter } from './stream-writer.ts';
import type { Urgency } from './write-pace.ts';

/** The callbacks of a step. */
interface Step {
  /** Settles when the first batch may be written. */
  ready(): Promise<void>;
  /** Takes what was added to the rows since the last batch. */
  take(): StreamWrite;
  /** Settles when the batch is stored. `since` is when its first chunk was added, by `performance.now()`. */
  write(write: StreamWrite, landing: Landing, since: number): Promise<StreamState>;
  stopped(why: Exclude<StreamState, 'live'>): void;
  failed(): void;
}

/**
 * Has the rows of a step written, one batch at a time. If a batch cannot be stored, `failed` is called, `stop` throws the
 * error, and nothing more is written.
 */
export class Flusher implements Stream {
  private readonly rows: ChunksToRows;
  private readonly writer: Pick<StreamWriter, 'add' | 'remove'>;
  /** As many chunks do not wait for the next tick. */
  private readonly size: number;
  private readonly step: Step;
  private isReady = false;
  private inFlight: Promise<void> | undefined;
  private isFirst = true;
  private waiting = 0;
  private waitingSince = 0;
  private over = false;
  private failure: { error: unknown } | undefined;

  constructor(rows: ChunksToRows, writer: Pick<StreamWriter, 'add' | 'remove'>, size: number, step: Step) {
    this.rows = rows;
    this.writer = writer;
    this.size = size;
    this.step = step;
    void this.open();
  }

  /** Call it after each chunk added to the rows. */
  chunk(): void {
    if (!this.rows.dirty || this.over) return;
    if (this.waiting === 0) this.waitingSince = performance.now();
    this.waiting += 1;
    if (this.isReady && this.inFlight === undefined) this.writer.add(this, this.urgency);
  }

  take(landing: Landing): StreamWrite | undefined {
    const since = this.waitingSince;
    this.waiting = 0;
    this.isFirst = false;
    let write: StreamWrite;
    try {
      write = this.step.take();
    } catch (error) {
      this.fail(error);
      return undefined;
    }
    this.inFlight = this.write(write, landing, since).finally(() => this.next());
    return write;
  }

  /**
   * Ends writing in the background and waits for the batch in flight, if any. The caller writes the rest.
   * @throws the error of a batch that could not be stored: no writes after a lost batch
   */
  async stop(): Promise<void> {
    this.over = true;
    this.writer.remove(this);
    await this.inFlight;
    if (this.failure !== undefined) throw this.failure.error;
  }

  private get urgency(): Urgency {
    if (this.isFirst) return 'first';
    return this.waiting >= this.size ? 'full' : 'tick';
  }

  private next(): void {
    this.inFlight = undefined;
    if (this.waiting > 0 && !this.over) this.writer.add(this, this.urgency);
  }

  private async open(): Promise<void> {
    try {
      await this.step.ready();
    } catch (error) {
      if (!this.over) this.fail(error);
    }
    this.isReady = true;
    this.next();
  }

  private async write(write: StreamWrite, landing: Landing, since: number): Promise<void> {
    try {
      const state = await this.step.write(write, landing, since);
      if (state === 'live') return;
      this.over = true;
      this.step.stopped(state);
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.over = true;
    this.failure = { error };
    this.step.failed();
  }
}
