import { isGrpcServiceError } from '@temporalio/client';
import type { System } from './servers.ts';

/** A gRPC status code, from https://grpc.io/docs/guides/status-codes/. */
const NOT_FOUND = 5;
/** Of how many workflows the histories are read. */
export const READ = 200;

/** Timers that are open in `READ` of these workflows, at regular distances, and how many of those were ever started. */
export async function openTimers(
  system: System,
  ids: readonly string[],
): Promise<{ timers: number; workflows: number }> {
  const sum = { timers: 0, workflows: 0 };
  for (let n = 0; n < READ; n += 1) {
    const timers = await timersOf(system, ids[Math.floor((n * ids.length) / READ)]!);
    if (timers === undefined) continue;
    sum.timers += timers;
    sum.workflows += 1;
  }
  return sum;
}

/** Undefined: there is no such workflow. */
async function timersOf({ client }: System, workflowId: string): Promise<number | undefined> {
  const history = client.temporal.workflow.getHandle(workflowId).fetchHistory();
  // A worker may have begun a turn while Temporal was too busy to start the workflow: the next command starts it.
  const { events } = await history.catch((error: unknown) => {
    if (isGrpcServiceError(error) && (error.code as number) === NOT_FOUND) return { events: undefined };
    throw error;
  });
  if (!events) return undefined;
  const count = (kind: 'timerStartedEventAttributes' | 'timerCanceledEventAttributes' | 'timerFiredEventAttributes') =>
    events.filter((event) => event[kind]).length;
  return (
    count('timerStartedEventAttributes') - count('timerCanceledEventAttributes') - count('timerFiredEventAttributes')
  );
}
