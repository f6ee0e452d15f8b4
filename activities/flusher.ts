import type { Batch, PartRows } from '../agent/part-rows.ts';

/** The result of storing a batch. `abort`: stored, but the run is to stop. `lost`: not stored, another attempt has the run. */
type BatchState = 'live' | 'abort' | 'lost';

/** Batches are written every `ms`, or earlier when `size` chunks wait. */
export interface SavePolicy {
  ms: number;
  size: number;
}

/** Stores a batch. `since` is when its first chunk was added, by `performance.now()`. */
type Write = (batch: Batch, since: number) => Promise<BatchState>;

/**
 * Writes the rows of a step, one batch at a time, the first content at once. If a batch cannot be stored, `failed` is
 * called, `stop` throws the error, and nothing more is written.
 */
export class Flusher {
  private readonly rows: PartRows;
  private readonly policy: SavePolicy;
  private readonly writeBatch: Write;
  private readonly stopped: (why: Exclude<BatchState, 'live'>) => void;
  private readonly failed: () => void;
  private inFlight: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private lastStart = -Infinity;
  private waiting = 0;
  private waitingSince = 0;
  private over = false;
  private failure: { error: unknown } | undefined;

  constructor(
    rows: PartRows,
    policy: SavePolicy,
    on: {
      write: Write;
      stopped: (why: Exclude<BatchState, 'live'>) => void;
      failed: () => void;
    },
  ) {
    this.rows = rows;
    this.policy = policy;
    this.writeBatch = on.write;
    this.stopped = on.stopped;
    this.failed = on.failed;
  }

  /** Call it after each chunk added to the rows. */
  chunk(): void {
    if (!this.rows.dirty || this.over) return;
    if (this.waiting === 0) this.waitingSince = performance.now();
    this.waiting += 1;
    if (this.inFlight !== undefined) return;
    const wait = this.lastStart + this.policy.ms - performance.now();
    if (wait <= 0 || this.waiting >= this.policy.size) this.start();
    else this.timer ??= setTimeout(() => this.start(), wait);
  }

  /**
   * Ends writing in the background and waits for the batch in flight. The caller writes the rest.
   * @throws the error of a batch that could not be stored: no writes after a lost batch
   */
  async stop(): Promise<void> {
    this.over = true;
    clearTimeout(this.timer);
    await this.inFlight;
    if (this.failure !== undefined) throw this.failure.error;
  }

  private start(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.over) return;
    this.waiting = 0;
    this.lastStart = performance.now();
    this.inFlight = this.write(this.waitingSince).finally(() => {
      this.inFlight = undefined;
      this.chunk();
    });
  }

  private async write(since: number): Promise<void> {
    try {
      const state = await this.writeBatch(this.rows.take(), since);
      if (state === 'live') return;
      this.over = true;
      this.stopped(state);
    } catch (error) {
      this.over = true;
      this.failure = { error };
      this.failed();
    }
  }
}
