import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SessionActivities, WorkflowSettings } from '../domain/commands.ts';

export type LocalActivities = Pick<SessionActivities, 'loadSession' | 'applyCommand' | 'settleRun'>;

/** Short database work of one session: its marker is the only event, and it takes no slot from the streaming activities. */
export const localActivities: LocalActivities = proxyLocalActivities<LocalActivities>({
  startToCloseTimeout: '10s',
  // A longer backoff is a timer: the workflow task is not kept open for it.
  localRetryThreshold: '2s',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
});

/** The activity itself ends at the turn's wall clock; the server's time-out, this much later, is for a hung activity. */
const GRACE_MS = 60_000;

type Streaming = Pick<SessionActivities, 'streamStep' | 'runTool'>;

/**
 * Activities that stream a step or run a tool. The server retries them only when their worker is lost: failures of a
 * provider are returned as values. After a cancellation the workflow does not wait for the activity: the fence rejects
 * its late writes.
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
