import {
  Client,
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from '@temporalio/client';

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];

/** The calls that an update makes. */
const UPDATE_CALLS = new Set(['ExecuteMultiOperation', 'UpdateWorkflowExecution', 'PollWorkflowExecutionUpdate']);
const QUICK_TRIES = 3;
const QUICK_INTERVAL_MS = 30;
/** The caller's deadline ends it before. */
const MOST_TRIES = 10;

/** gRPC's code of an update whose workflow task is to be done again. */
const FAILED_PRECONDITION = 9;

/**
 * Tries failed calls again as the SDK does, but updates three times soon: one that meets a session while it continues as
 * new is told RESOURCE_EXHAUSTED, for which the SDK would wait 1.7 s. The same code also means a rate limit, so later
 * tries, and other calls, keep the SDK's pace. A close that is answered while the next message arrives is told
 * FAILED_PRECONDITION, for the task that ends the workflow is done again: asked once more, it has its answer. So is one
 * whose task has failed or timed out, and that is over in seconds.
 */
function retryInterceptor(): Interceptor {
  const usual = defaultGrpcRetryOptions();
  const soon = defaultGrpcRetryOptions({ initialIntervalMs: () => QUICK_INTERVAL_MS });
  const others = makeGrpcRetryInterceptor(usual);
  const updates = makeGrpcRetryInterceptor({
    ...usual,
    retryableDecider: (attempt, status) =>
      usual.retryableDecider(attempt, status) ||
      ((status.code as number) === FAILED_PRECONDITION && attempt <= MOST_TRIES),
    delayFunction: (attempt, status) => (attempt <= QUICK_TRIES ? soon : usual).delayFunction(attempt, status),
  });
  return (options, nextCall) => {
    const name = options.method_definition.path.split('/').at(-1) ?? '';
    return (UPDATE_CALLS.has(name) ? updates : others)(options, nextCall);
  };
}

/** A client of Temporal that connects when it is first used, so that a Temporal that is away keeps nobody from starting. */
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
