import {
  Client,
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from '@temporalio/client';

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];

/** Calls that `sendUpdate` retries itself: the SDK's retry would wait 1.7 to 5 s after RESOURCE_EXHAUSTED. */
const RETRIED_BY_SENDER = new Set(['ExecuteMultiOperation', 'PollWorkflowExecutionUpdate']);

/** The SDK's default retries, except for calls that their sender retries. */
function retryInterceptor(): Interceptor {
  const retry = makeGrpcRetryInterceptor(defaultGrpcRetryOptions());
  const once = makeGrpcRetryInterceptor({ retryableDecider: () => false, delayFunction: () => 0 });
  return (options, nextCall) => {
    const name = options.method_definition.path.split('/').at(-1) ?? '';
    return (RETRIED_BY_SENDER.has(name) ? once : retry)(options, nextCall);
  };
}

/** A Temporal client that connects at its first call, so that processes can start while Temporal is unreachable. */
export function temporalClient({
  connectionOptions,
  namespace,
}: {
  connectionOptions: ConnectionOptions;
  namespace: string;
}): Client {
  const connection = Connection.lazy({ ...connectionOptions, interceptors: [retryInterceptor()] });
  return new Client({ connection, namespace });
}
