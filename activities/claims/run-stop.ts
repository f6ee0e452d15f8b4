import { ApplicationFailure, type Context } from '@temporalio/activity';
import { type StopReason, StopSignal } from '../../agent/stop-signal.ts';
import type { Bus } from '../../bus/bus.ts';

/** Heartbeats in one heartbeat time-out. */
const BEATS = 3;

/** How long after the turn's time limit an activity gives up work that does not end: its last write is retried for a minute. */
export const OVERDUE_MS = 120_000;

/**
 * The stop signal of a step or a tool call. It fires on an abort of its run on the bus and, once the work belongs to an
 * activity, on Temporal's cancellation.
 */
export class RunStop extends StopSignal {
  /** The work belongs to an activity. */
  isAttached = false;
  private isOver = false;
  private readonly overdue = Promise.withResolvers<never>();

  /** @param graceOver fires when this worker, which is to stop, waits no longer */
  constructor(bus: Bus, run: { session_id: string; run_seq: number }, graceOver: AbortSignal) {
    super();
    this.follow(graceOver, () => 'shutdown');
    const unsubscribe = bus.subscribe((event) => {
      if (event.kind === 'abort' && event.session === run.session_id && event.run === run.run_seq) this.fire('abort');
    });
    this.overdue.promise.catch(() => {});
    this.undo.push(unsubscribe, () => (this.isOver = true));
  }

  /**
   * Makes the work that of an activity: it heartbeats until it is disposed. Call it before the activity waits for anything:
   * the server retries an activity that waits for a slow Postgres without heartbeats on another worker, as if its own had
   * died.
   */
  attach(activity: Context, settings: { heartbeatTimeoutMs: number }): void {
    this.isAttached = true;
    if (this.isOver) return;
    // The time-out is that of the worker that loaded the session, which may have other settings than this one.
    const { heartbeatTimeoutMs = settings.heartbeatTimeoutMs } = activity.info;
    const beat = setInterval(() => activity.heartbeat(), heartbeatTimeoutMs / BEATS);
    this.undo.push(() => clearInterval(beat));
    this.follow(activity.cancellationSignal, () => reasonOf(activity.cancellationDetails));
  }

  override limitTo(ms: number): void {
    super.limitTo(ms);
    const giveUp = () => this.overdue.reject(ApplicationFailure.retryable('Overdue', 'Overdue'));
    this.in(ms + OVERDUE_MS, giveUp);
  }

  /**
   * Waits for work of an activity.
   * @throws {ApplicationFailure} `Overdue`: it goes on `OVERDUE_MS` after the turn's time limit; the next attempt ends the turn
   */
  inTime<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.overdue.promise]);
  }
}

/**
 * Why the work stops. Undefined: an operator has paused the activity, which only keeps the server from making a next attempt. The SDK
 * tells of no cancellation after that: the bus and the fence still do.
 */
function reasonOf(details: Context['cancellationDetails']): StopReason | undefined {
  if (details?.cancelRequested) return 'abort';
  if (details?.workerShutdown) return 'shutdown';
  const isOnlyPaused = details?.paused && !details.notFound && !details.timedOut && !details.reset;
  return isOnlyPaused ? undefined : 'lost';
}
