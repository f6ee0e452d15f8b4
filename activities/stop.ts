import { Context } from '@temporalio/activity';
import { type StopReason, StopSignal } from '../agent/stop.ts';
import type { Bus } from '../bus/bus.ts';

/** Heartbeats in one heartbeat time-out. */
const BEATS = 4;

/**
 * The stop signal of an activity. It also fires on Temporal's cancellation, and on an abort of this run on the bus.
 *
 * Create it before the first wait: it heartbeats until it is disposed. The server retries an activity that waits for a slow
 * Postgres without heartbeats on another worker, as if its own had died.
 */
export class ActivityStop extends StopSignal {
  constructor(
    { bus, settings }: { bus: Bus; settings: { heartbeatTimeoutMs: number } },
    run: { session_id: string; run_seq: number },
  ) {
    super();
    const context = Context.current();
    const beat = setInterval(() => context.heartbeat(), settings.heartbeatTimeoutMs / BEATS);
    const unsubscribe = bus.subscribe((event) => {
      if (event.kind === 'abort' && event.session === run.session_id && event.run === run.run_seq) this.fire('abort');
    });
    this.undo.push(() => clearInterval(beat), unsubscribe);
    this.follow(context.cancellationSignal, reasonOf);
  }
}

/** The SDK names the reason in the message. Any but a request or a shutdown means that the server gave the task away. */
function reasonOf(reason: unknown): StopReason {
  const name = reason instanceof Error ? reason.message : '';
  if (name === 'CANCELLED') return 'abort';
  return name === 'WORKER_SHUTDOWN' ? 'shutdown' : 'lost';
}
