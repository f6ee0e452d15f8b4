import type { Context } from '@temporalio/activity';
import { type StopReason, StopSignal } from '../agent/stop.ts';
import type { Bus } from '../bus/bus.ts';

/** Heartbeats in one heartbeat time-out. */
const BEATS = 3;

/**
 * The stop signal of a step or a tool call. It fires on an abort of its run on the bus and, once the work belongs to an
 * activity, on Temporal's cancellation.
 */
export class RunStop extends StopSignal {
  /** The work belongs to an activity. */
  isAttached = false;
  private isOver = false;

  constructor(bus: Bus, run: { session_id: string; run_seq: number }) {
    super();
    const unsubscribe = bus.subscribe((event) => {
      if (event.kind === 'abort' && event.session === run.session_id && event.run === run.run_seq) this.fire('abort');
    });
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
    this.follow(activity.cancellationSignal, reasonOf);
  }
}

/** The SDK names the reason in the message. Any but a request or a shutdown means that the server gave the task away. */
function reasonOf(reason: unknown): StopReason {
  const name = reason instanceof Error ? reason.message : '';
  if (name === 'CANCELLED') return 'abort';
  return name === 'WORKER_SHUTDOWN' ? 'shutdown' : 'lost';
}
