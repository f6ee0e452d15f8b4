import type { Batch, Landing, Recorder } from './recorder.ts';

/** When a growing answer is written: at once, then at most every `ms`, sooner when `size` chunks have come. */
export interface SavePolicy {
  ms: number;
  size: number;
}

/** Writes a batch whose first chunk came at `since`, of `performance.now()`. */
type Land = (batch: Batch, since: number) => Promise<Landing>;

/**
 * Writes what a recorder has, one batch at a time: the first content at once, what comes meanwhile in the next batch.
 * `land` writes a batch; when it fails, `failed` is told, `stop` throws what it threw, and nothing is written any more.
 */
export class Flusher {
  private readonly recorder: Recorder;
  private readonly policy: SavePolicy;
  private readonly land: Land;
  private readonly stopped: (landing: Exclude<Landing, 'live'>) => void;
  private readonly failed: () => void;
  private inFlight: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private lastStart = -Infinity;
  private waiting = 0;
  private waitingSince = 0;
  private over = false;
  private failure: { error: unknown } | undefined;

  constructor(
    recorder: Recorder,
    policy: SavePolicy,
    on: {
      land: Land;
      stopped: (landing: Exclude<Landing, 'live'>) => void;
      failed: () => void;
    },
  ) {
    this.recorder = recorder;
    this.policy = policy;
    this.land = on.land;
    this.stopped = on.stopped;
    this.failed = on.failed;
  }

  /** Says that the recorder has taken in a chunk. */
  chunk(): void {
    if (!this.recorder.dirty || this.over) return;
    if (this.waiting === 0) this.waitingSince = performance.now();
    this.waiting += 1;
    if (this.inFlight !== undefined) return;
    const wait = this.lastStart + this.policy.ms - performance.now();
    if (wait <= 0 || this.waiting >= this.policy.size) this.start();
    else this.timer ??= setTimeout(() => this.start(), wait);
  }

  /**
   * Ends the writing in the background; what the recorder still has is the caller's to write.
   * @throws what kept a batch from landing: behind a hole nothing may be written
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
      const landing = await this.land(this.recorder.take(), since);
      if (landing === 'live') return;
      this.over = true;
      this.stopped(landing);
    } catch (error) {
      this.over = true;
      this.failure = { error };
      this.failed();
    }
  }
}
