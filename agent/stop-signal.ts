import { MAX_TIMER_MS } from '../domain/timer.ts';

/**
 * Why work on a run stops early: the user's abort, a greater fence, the run's or the call's time limit, this worker's
 * shutdown, or a failure to write.
 */
export type StopReason = 'abort' | 'lost' | 'wall_clock' | 'timeout' | 'shutdown' | 'failed';

/** The reason of a run's AbortSignal. */
class StopError extends Error {
  readonly why: StopReason;

  constructor(why: StopReason) {
    super(`the run stops: ${why}`);
    this.name = 'AbortError';
    this.why = why;
  }
}

/** The AbortSignal of a piece of work, with the first reason for which it fired. Disposing it removes timers and listeners. */
export class StopSignal implements Disposable {
  protected readonly undo: (() => void)[] = [];
  private readonly controller = new AbortController();
  private firedAt = 0;
  /** In the time of `performance.now()`. */
  private deadline = Infinity;

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Why the signal fired, or undefined while it has not. */
  get why(): StopReason | undefined {
    const { reason } = this.signal as { reason: unknown };
    return reason instanceof StopError ? reason.why : undefined;
  }

  /** Seconds since it fired; 0 while it has not. */
  get seconds(): number {
    return this.signal.aborted ? (performance.now() - this.firedAt) / 1000 : 0;
  }

  /** Milliseconds that are left of the run's wall-clock limit; infinite before `limitTo`. */
  get timeLeftMs(): number {
    return this.deadline - performance.now();
  }

  fire(why: StopReason): void {
    if (!this.signal.aborted) this.firedAt = performance.now();
    this.controller.abort(new StopError(why));
  }

  /** Fires after a delay in milliseconds. */
  after(ms: number, why: StopReason): void {
    this.in(ms, () => this.fire(why));
  }

  protected in(ms: number, act: () => void): void {
    const timer = setTimeout(act, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
    this.undo.push(() => clearTimeout(timer));
  }

  /** Fires when another signal has, unless `why` gives no reason. */
  follow(signal: AbortSignal, why: () => StopReason | undefined): void {
    const fire = () => {
      const reason = why();
      if (reason !== undefined) this.fire(reason);
    };
    if (signal.aborted) fire();
    signal.addEventListener('abort', fire);
    this.undo.push(() => signal.removeEventListener('abort', fire));
  }

  /** Sets the run's remaining time in milliseconds. Counts on the monotonic clock, because wall clocks differ and jump. */
  limitTo(ms: number): void {
    this.deadline = performance.now() + ms;
    this.after(ms, 'wall_clock');
  }

  /** A signal for a part of this work: it fires with this one, and may fire alone. */
  part(): StopSignal {
    const part = new StopSignal();
    part.deadline = this.deadline;
    part.follow(this.signal, () => this.why ?? 'abort');
    return part;
  }

  [Symbol.dispose](): void {
    for (const undo of this.undo.splice(0)) undo();
  }
}

/** Rejects with the signal's reason once it fires. To race with work that may ignore its signal. */
export function whenAborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  if (signal.aborted) reject(signal.reason as Error);
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  return promise;
}
