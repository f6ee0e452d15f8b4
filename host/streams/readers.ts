import { PerdureError } from '../../domain/errors.ts';
import type { HostMetrics } from '../host-metrics.ts';

/** Enough for all tabs, devices and programs of one user. */
const MAX_READERS = 200;

/** Counts and limits open streams per user: each costs memory, a connection and a share of every poll. */
export class Readers {
  private readonly metrics: HostMetrics;
  private readonly most: number;
  private readonly counts = new Map<string, number>();

  constructor(metrics: HostMetrics, most: number = MAX_READERS) {
    this.metrics = metrics;
    this.most = most;
  }

  /** Number of open streams of a user, or with null of all users. */
  open(user: string | null): number {
    return user === null
      ? [...this.counts.values()].reduce((sum, count) => sum + count, 0)
      : (this.counts.get(user) ?? 0);
  }

  /**
   * Admits one more stream of a user. Call the returned function when the stream ends; repeated calls have no effect.
   * @throws {PerdureError} `TooMany`
   */
  admit(user: string, route: string): () => void {
    const count = this.counts.get(user) ?? 0;
    if (count >= this.most) {
      const message = `expected at most ${this.most} open streams per user and host (PERDURE_MAX_READERS)`;
      throw new PerdureError('TooMany', message);
    }
    this.counts.set(user, count + 1);
    const over = this.metrics.streamOpened(route);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      over();
      const left = (this.counts.get(user) ?? 1) - 1;
      if (left > 0) this.counts.set(user, left);
      else this.counts.delete(user);
    };
  }
}
