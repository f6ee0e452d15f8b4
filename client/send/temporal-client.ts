import { Client, Connection, type ConnectionOptions } from '@temporalio/client';
import { grpcInterceptors } from '../../config/grpc-interceptors.ts';

/**
 * Calls that `sendUpdate` retries itself: the SDK's retry would wait 1.7 to 5 s after RESOURCE_EXHAUSTED, and would hide an
 * attempt whose outcome is unknown behind the next one.
 */
const RETRIED_BY_SENDER = ['ExecuteMultiOperation', 'PollWorkflowExecutionUpdate'];

/** A Temporal client that connects at its first call, so that processes can start while Temporal is unreachable. */
export function temporalClient({
  connectionOptions,
  namespace,
}: {
  connectionOptions: ConnectionOptions;
  namespace: string;
}): Client {
  const interceptors = grpcInterceptors({ retriedBySender: RETRIED_BY_SENDER });
  return new Client({ connection: Connection.lazy({ ...connectionOptions, interceptors }), namespace });
}
