import { setTimeout as delay } from 'node:timers/promises';

/**
 * Does the same again and again until it is stopped, one at a time, after a wait each time. Waits differ by a quarter:
 * workers that started together need not ask together.
 */
export class Rounds {
  private readonly intervalMs: number;
  private readonly round: (stopping: AbortSignal) => Promise<void>;
  private readonly stopping = new AbortController();
  private going: Promise<void> | undefined;

  /** `round` does not fail; the signal tells it to leave what it has not begun. */
  constructor(intervalMs: number, round: (stopping: AbortSignal) => Promise<void>) {
    this.intervalMs = intervalMs;
    this.round = round;
  }

  start(): void {
    this.going ??= this.go(this.stopping.signal);
  }

  /** Settles when the round that is at work is over. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.going;
  }

  private async go(signal: AbortSignal): Promise<void> {
    for (;;) {
      await delay(this.intervalMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await this.round(signal);
    }
  }
}
