import { type Client, isGrpcServiceError } from '@temporalio/client';

const DEADLINE_MS = 3_000;
const NOT_FOUND = 5;

/**
 * Fails an activity whose worker is lost, so that the server retries it at once. By its task token, which stands for one
 * attempt: if that is over, nothing happens.
 */
export async function failActivity({ connection, options }: Client, taskToken: Uint8Array): Promise<void> {
  const { namespace, identity } = options;
  const failure = { message: 'WorkerLost', source: 'perdure', applicationFailureInfo: { type: 'WorkerLost' } };
  const fail = () => connection.workflowService.respondActivityTaskFailed({ namespace, identity, taskToken, failure });
  try {
    await connection.withDeadline(Date.now() + DEADLINE_MS, fail);
  } catch (error) {
    if (!isGrpcServiceError(error) || (error.code as number) !== NOT_FOUND) throw error;
  }
}
