import type { Client } from '@temporalio/client';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { fetchHistory } from '../../worker/replay/history.ts';
import { readable } from '../../worker/replay/payloads.ts';
import { INITIATIVE_WORKFLOW, SESSION_WORKFLOW } from '../../workflows/definitions.ts';

/** Waits until a workflow's history has `count` events, or the workflow has ended with fewer. */
export async function untilEvents(client: Client, workflowId: string, count: number): Promise<void> {
  await eventually(() => client.workflow.getHandle(workflowId).describe());
  const request = { namespace: client.options.namespace, execution: { workflowId }, waitNewEvent: true };
  let nextPageToken: Uint8Array | undefined;
  let seen = 0;
  do {
    const page = await client.workflowService.getWorkflowExecutionHistory({
      ...request,
      ...(nextPageToken && { nextPageToken }),
    });
    seen += page.history?.events?.length ?? 0;
    nextPageToken = page.nextPageToken;
  } while (seen < count && nextPageToken.length > 0);
}

/** Every history of a namespace as text, with decoded payloads. */
export async function allHistories(client: Client): Promise<string[]> {
  const histories: string[] = [];
  const query = `WorkflowType IN ('${SESSION_WORKFLOW}', '${INITIATIVE_WORKFLOW}')`;
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    histories.push(readable(await fetchHistory(client, { workflowId, runId })));
  }
  return histories;
}

/** The summaries of a workflow's activities, from its history. */
export async function summaries(client: Client, workflowId: string): Promise<string[]> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? [])
    .filter((event) => event.activityTaskScheduledEventAttributes)
    .map((event) => JSON.parse(Buffer.from(event.userMetadata!.summary!.data!).toString()) as string);
}
