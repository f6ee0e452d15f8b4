import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SessionActivities, WorkflowSettings } from '../domain/commands.ts';

type Short = Pick<SessionActivities, 'loadSession' | 'applyCommand' | 'settleRun'>;

const shortWork = proxyLocalActivities<Short>({
  startToCloseTimeout: '10s',
  // Beyond this a retry waits by a timer, not by holding the workflow's task.
  localRetryThreshold: '2s',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
});

/**
 * Short database work of one session: no event but its marker, no slot taken from the streams. One piece at a time: those
 * in flight together are resolved one by one while the workflow runs, but all at once when its history is replayed; what
 * follows them would come in another order, and the history could not replay.
 */
export function oneAtATime(): Short {
  let last: Promise<unknown> = Promise.resolve();
  const afterTheLast = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
  return {
    loadSession: (sessionId) => afterTheLast(() => shortWork.loadSession(sessionId)),
    applyCommand: (args) => afterTheLast(() => shortWork.applyCommand(args)),
    settleRun: (args) => afterTheLast(() => shortWork.settleRun(args)),
  };
}

/** A turn's wall clock is kept by the activity itself; the server's time-out is for one that has lost its mind. */
const GRACE_MS = 60_000;

type Streaming = Pick<SessionActivities, 'streamStep' | 'runTool'>;

/**
 * Work that streams or runs tools. The server tries it again only when its worker is lost: a provider's failures come
 * back as values. On a cancellation the workflow goes on at once, for the fence keeps what comes late out.
 */
export function streaming(settings: WorkflowSettings, summary: string): Streaming {
  return proxyActivities<Streaming>({
    startToCloseTimeout: settings.wall_clock_ms + GRACE_MS,
    heartbeatTimeout: settings.heartbeat_timeout_ms,
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '100ms', maximumInterval: '5s' },
    summary,
  });
}
