/**
 * Why a stream is to be written. `first`: its first content. `full`: as many chunks wait as the save policy allows. `tick`:
 * any other content.
 */
export type Urgency = 'first' | 'full' | 'tick';

/** Statements for waiting streams take at most a quarter of the time, */
const PAUSE = 4;
/** but the pause after the beginning of a slow one is at most this long, in milliseconds. */
const LONGEST_PAUSE_MS = 150;
/** A statement delays the next one for at most this time, in milliseconds. */
const PATIENCE_MS = 30;
/** Maximum of statements at the same time. */
const MOST_STATEMENTS = 4;

/** A statement: all of its streams have `first` content, or it leaves no stream waiting, or neither. */
export type StatementKind = 'first' | 'all' | 'some';

/**
 * When a worker's next statement for its streams begins. Times are in milliseconds of `performance.now()`.
 *
 * 1. A tick begins `ms` after the last one; where statements are slow, four times as long after it as the newest one took,
 *    but at most 150 ms: then there are fewer and larger statements.
 * 2. A stream that is full waits for this pause only, and first content for none.
 * 3. There is one statement at a time. If one takes longer than 30 ms, others begin beside it, of other streams, up to four.
 */
export class WritePace {
  private readonly ms: number;
  private lastTick = -Infinity;
  private lastPaced = -Infinity;
  private lastStart = -Infinity;
  private pause = 0;
  private running = 0;

  constructor(ms: number) {
    this.ms = ms;
  }

  /** When a statement for such a stream may begin; infinite: not before another one has ended. */
  due(urgency: Urgency): number {
    return Math.max(this.free(), this.wanted(urgency));
  }

  begin(kind: StatementKind, now: number): void {
    this.running += 1;
    this.lastStart = now;
    if (kind !== 'first') this.lastPaced = now;
    if (kind === 'all') this.lastTick = now;
  }

  /** A statement has ended, `took` milliseconds after it began. */
  end(kind: StatementKind, took: number): void {
    this.running -= 1;
    if (kind !== 'first') this.pause = Math.min(took * PAUSE, LONGEST_PAUSE_MS);
  }

  private wanted(urgency: Urgency): number {
    switch (urgency) {
      case 'first':
        return -Infinity;
      case 'full':
        return this.lastPaced + this.pause;
      case 'tick':
        return this.lastTick + Math.max(this.ms, this.pause);
    }
  }

  private free(): number {
    if (this.running === 0) return -Infinity;
    return this.running < MOST_STATEMENTS ? this.lastStart + PATIENCE_MS : Infinity;
  }
}
