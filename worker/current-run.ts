import { ApplicationFailure } from '@temporalio/activity';
import type { Client } from '@temporalio/client';

const DEADLINE_MS = 3_000;

/**
 * The run id of a workflow's newest execution.
 * @throws {ApplicationFailure} `TemporalUnavailable`, to be retried
 */
export async function currentRun({ connection, options }: Client, workflowId: string): Promise<string> {
  const { namespace } = options;
  const describe = () => connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } });
  try {
    const { workflowExecutionInfo } = await connection.withDeadline(Date.now() + DEADLINE_MS, describe);
    return workflowExecutionInfo?.execution?.runId ?? '';
  } catch (error) {
    throw ApplicationFailure.create({ type: 'TemporalUnavailable', nonRetryable: false, cause: error as Error });
  }
}
