import type { Client } from '@temporalio/client';
import { eventually } from '../support/eventually.ts';

/** Waits until a workflow's history has so many events, or is over with fewer. */
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
