import { Context } from '@temporalio/activity';
import type { Bus } from '../bus/bus.ts';

/**
 * Why work on a run stops before its end: the user's abort, a greater fence, the run's or the call's time limit, this
 * worker's end, or a failure to write.
 */
export type StopReason = 'abort' | 'lost' | 'wall_clock' | 'timeout' | 'shutdown' | 'failed';

/** The reason of a run's AbortSignal. */
class Stop extends Error {
  readonly why: StopReason;

  constructor(why: StopReason) {
    super(`the run stops: ${why}`);
    this.name = 'AbortError';
    this.why = why;
  }
}

/** Longest delay that a timer can hold; a longer one would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * The one AbortSignal of an activity's work, and everything that may fire it: Temporal's cancellation, an abort on the
 * bus aimed at this very run, the run's deadline. Heartbeats go on until it is disposed.
 */
export class StopSignal implements Disposable {
  readonly controller = new AbortController();
  private readonly undo: (() => void)[] = [];
  private firedAt = 0;

  constructor(run: { sessionId: string; runSeq: number; deadline: number; heartbeatMs: number }, bus: Bus) {
    const context = Context.current();
    this.undo.push(
      bus.subscribe((pointer) => {
        if (pointer.kind === 'abort' && pointer.session === run.sessionId && pointer.run === run.runSeq) {
          this.fire('abort');
        }
      }),
    );
    const cancelled = () => this.fire(whyCancelled(context.cancellationSignal.reason));
    if (context.cancellationSignal.aborted) cancelled();
    context.cancellationSignal.addEventListener('abort', cancelled);
    this.undo.push(() => context.cancellationSignal.removeEventListener('abort', cancelled));
    this.after(run.deadline - Date.now(), 'wall_clock');
    const beat = setInterval(() => context.heartbeat(), run.heartbeatMs);
    this.undo.push(() => clearInterval(beat));
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Why the signal fired, or undefined while it has not. */
  get why(): StopReason | undefined {
    const { reason } = this.signal as { reason: unknown };
    return reason instanceof Stop ? reason.why : undefined;
  }

  /** Seconds since it fired. */
  get seconds(): number {
    return (performance.now() - this.firedAt) / 1000;
  }

  fire(why: StopReason): void {
    if (!this.signal.aborted) this.firedAt = performance.now();
    this.controller.abort(new Stop(why));
  }

  /** Fires after a delay in milliseconds. */
  after(ms: number, why: StopReason): void {
    const timer = setTimeout(() => this.fire(why), Math.min(Math.max(ms, 0), LONGEST_TIMER));
    this.undo.push(() => clearTimeout(timer));
  }

  [Symbol.dispose](): void {
    for (const undo of this.undo.splice(0)) undo();
  }
}

/** The SDK names the reason in the message; what is neither asked for nor a shutdown means that the task is not ours. */
function whyCancelled(reason: unknown): StopReason {
  const name = reason instanceof Error ? reason.message : '';
  if (name === 'CANCELLED') return 'abort';
  return name === 'WORKER_SHUTDOWN' ? 'shutdown' : 'lost';
}
