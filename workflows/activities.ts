import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SessionActivities, WorkflowSettings } from '../domain/commands.ts';

/** Short database work: no event but its marker, no slot taken from the streams. */
export const local = proxyLocalActivities<Pick<SessionActivities, 'loadSession' | 'applyCommand' | 'settleRun'>>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
});

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
