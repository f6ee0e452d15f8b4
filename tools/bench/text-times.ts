import { now } from './clock.ts';

/** When an answer's text arrived; times of `now`. */
export class TextTimes {
  /** Undefined: no text yet. */
  firstTextAt: number | undefined;
  /** The longest time between two arrivals, in milliseconds. */
  longestGap = 0;
  private lastAt = 0;

  /** Text has arrived. */
  note(): void {
    const at = now();
    if (this.firstTextAt !== undefined) this.longestGap = Math.max(this.longestGap, at - this.lastAt);
    this.firstTextAt ??= at;
    this.lastAt = at;
  }
}
