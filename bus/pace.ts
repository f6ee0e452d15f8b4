/** Limits how often something begins: on average once per interval, after an idle time `burst` times without delay. */
export class Pace {
  private readonly burst: number;
  /** How often it may begin now. */
  private left: number;
  private at = performance.now();

  constructor(burst: number) {
    this.burst = burst;
    this.left = burst;
  }

  /** Milliseconds until it may begin, if the interval is this long now. */
  waitMs(intervalMs: number): number {
    this.refill(intervalMs);
    return Math.max(0, 1 - this.left) * intervalMs;
  }

  /** Whether it may begin this often without delay, if the interval is this long now. */
  hasLeft(times: number, intervalMs: number): boolean {
    this.refill(intervalMs);
    return this.left >= times;
  }

  /** It begins. */
  begin(intervalMs: number): void {
    this.refill(intervalMs);
    this.left = Math.max(0, this.left - 1);
  }

  private refill(intervalMs: number): void {
    const now = performance.now();
    this.left = Math.min(this.burst, this.left + (now - this.at) / intervalMs);
    this.at = now;
  }
}
