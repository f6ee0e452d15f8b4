import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SessionActivities, WorkflowSettings } from '../domain/activities.ts';
import type { InitiativeActivities } from '../domain/initiatives/initiative-commands.ts';
import { MAX_TIMER_MS } from '../domain/timer.ts';

type LocalActivities = Pick<SessionActivities, 'loadSession' | 'applyCommand' | 'settleRun' | 'deliverTask'>;

const SHORT = {
  startToCloseTimeout: '10s',
  // A longer backoff uses a timer and ends the workflow task.
  localRetryThreshold: '500ms',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
} as const;

/** Short database work, as local activities: one event each, and no slot that a streaming activity needs. */
export const localActivities: LocalActivities = proxyLocalActivities<LocalActivities>(SHORT);

/** Those of initiatives. */
export const initiativeLocalActivities: InitiativeActivities = proxyLocalActivities<InitiativeActivities>(SHORT);

type Streaming = Pick<SessionActivities, 'streamStep' | 'runTool' | 'compact'>;

/**
 * Activities that stream a step, run a tool or compact. The server retries them only when their worker is lost: failures of a
 * provider are returned as values. They end themselves, by the time limit of the agent that the executing worker has, which
 * may be longer than at the load; the server's own limit is the longest timer. After a cancellation the workflow does not
 * wait for the activity: the fence rejects its late writes.
 */
export function streaming(settings: WorkflowSettings, summary: string): Streaming {
  return proxyActivities<Streaming>({
    startToCloseTimeout: MAX_TIMER_MS,
    heartbeatTimeout: settings.heartbeat_timeout_ms,
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '100ms', maximumInterval: '5s' },
    summary,
  });
}
