// Temporal histories as JSON, in the format of the CLI and the UI.
import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { INITIATIVE_WORKFLOW, SESSION_WORKFLOW } from '../../workflows/definitions.ts';

/** An event; its attributes are in the field whose name ends in `EventAttributes`. */
export interface HistoryEvent {
  eventId: string;
  eventTime: string;
  /** `EVENT_TYPE_…` */
  eventType: string;
  [field: string]: unknown;
}

export interface History {
  events: HistoryEvent[];
}

/** An execution of a session. */
export interface Execution {
  workflowId: string;
  runId: string;
}

/** An execution in a list. */
export type ListedExecution = Execution & { startTime: Date };

/** The attributes of an event. */
export function eventAttributes(event: HistoryEvent | undefined): Record<string, unknown> {
  const name = Object.keys(event ?? {}).find((key) => key.endsWith('EventAttributes'));
  return (name === undefined ? undefined : (event?.[name] ?? {})) as Record<string, unknown>;
}

/** An event's type in readable form: `ActivityTaskScheduled`. */
export function typeOf(event: HistoryEvent): string {
  const words = event.eventType.replace('EVENT_TYPE_', '').toLowerCase().split('_');
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

/** The newest executions of sessions, of one session or of all, newest first. */
export async function listExecutions(
  client: Client,
  { limit, workflowId }: { limit: number; workflowId?: string },
): Promise<ListedExecution[]> {
  const found: ListedExecution[] = [];
  const ofOne = workflowId === undefined ? '' : ` AND WorkflowId = '${workflowId}'`;
  const query = `WorkflowType IN ('${SESSION_WORKFLOW}', '${INITIATIVE_WORKFLOW}')${ofOne}`;
  for await (const execution of client.workflow.list({ query, pageSize: Math.min(limit, 200) })) {
    found.push({ workflowId: execution.workflowId, runId: execution.runId, startTime: execution.startTime });
    if (found.length === limit) break;
  }
  return found.toSorted((a, b) => b.startTime.getTime() - a.startTime.getTime());
}

/** The history of an execution. */
export async function fetchHistory(client: Client, { workflowId, runId }: Execution): Promise<History> {
  return historyOf(await client.workflow.getHandle(workflowId, runId).fetchHistory());
}

/** A history as JSON. */
export async function historyOf(history: temporal.api.history.v1.IHistory): Promise<History> {
  // Of the SDK's inside: a worker starts without it.
  const { historyToJSON } = await import('@temporalio/common/lib/proto-utils.js');
  return JSON.parse(historyToJSON(history)) as History;
}
