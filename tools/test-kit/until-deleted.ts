import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { eventually } from './eventually.ts';
import { patient } from './patient.ts';

/** Temporal deletes in the background, at times minutes after an execution has ended. For `eventually`. */
export const DELETION = { timeout: 300_000 };
/** Of a test that waits for deletions. */
export const WITH_DELETION = { timeout: patient(2 * DELETION.timeout) };

/** Waits until Temporal has deleted an execution. */
export async function untilDeleted({ workflow }: Client, workflowId: string, runId: string): Promise<void> {
  await eventually(async () => {
    if (await exists()) throw new Error(`Temporal has not deleted ${workflowId}, run ${runId}`);
  }, DELETION);

  async function exists(): Promise<boolean> {
    try {
      await workflow.getHandle(workflowId, runId).describe();
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }
}
