import {
  Client,
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from '@temporalio/client';

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];

/** The calls that `sendUpdate` makes. It retries them itself: here, RESOURCE_EXHAUSTED would wait for 1.7 to 5 s. */
const RETRIED_BY_SENDER = new Set(['ExecuteMultiOperation', 'PollWorkflowExecutionUpdate']);

/** Retries failed calls as the SDK does by default, except for those that their sender retries. */
function retryInterceptor(): Interceptor {
  const retry = makeGrpcRetryInterceptor(defaultGrpcRetryOptions());
  const once = makeGrpcRetryInterceptor({ retryableDecider: () => false, delayFunction: () => 0 });
  return (options, nextCall) => {
    const name = options.method_definition.path.split('/').at(-1) ?? '';
    return (RETRIED_BY_SENDER.has(name) ? once : retry)(options, nextCall);
  };
}

/** A client of Temporal that connects at its first call, so that processes start while Temporal is away. */
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
