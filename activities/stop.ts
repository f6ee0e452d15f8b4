import { Context } from '@temporalio/activity';
import { type StopReason, StopSignal } from '../agent/stop.ts';
import type { Bus } from '../bus/bus.ts';

/** Heartbeats in one heartbeat time-out. */
const BEATS = 4;

/**
 * The stop signal of an activity: it fires also on Temporal's cancellation, and on an abort of this very run on the bus.
 *
 * Make it before anything that waits: it heartbeats until it is disposed. An activity that waits for a slow Postgres
 * without heartbeats is taken for dead and made again elsewhere.
 */
export class ActivityStop extends StopSignal {
  constructor(
    { bus, settings }: { bus: Bus; settings: { heartbeatTimeoutMs: number } },
    run: { session_id: string; run_seq: number },
  ) {
    super();
    const context = Context.current();
    const beat = setInterval(() => context.heartbeat(), settings.heartbeatTimeoutMs / BEATS);
    this.undo.push(() => clearInterval(beat));
    this.undo.push(
      bus.subscribe((pointer) => {
        if (pointer.kind === 'abort' && pointer.session === run.session_id && pointer.run === run.run_seq) {
          this.fire('abort');
        }
      }),
    );
    const cancelled = () => this.fire(reasonOf(context.cancellationSignal.reason));
    if (context.cancellationSignal.aborted) cancelled();
    context.cancellationSignal.addEventListener('abort', cancelled);
    this.undo.push(() => context.cancellationSignal.removeEventListener('abort', cancelled));
  }
}

/** The SDK names the reason in the message. Any but a request or a shutdown means that the server gave the task away. */
function reasonOf(reason: unknown): StopReason {
  const name = reason instanceof Error ? reason.message : '';
  if (name === 'CANCELLED') return 'abort';
  return name === 'WORKER_SHUTDOWN' ? 'shutdown' : 'lost';
}
