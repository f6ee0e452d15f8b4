import { InterceptingCall, Metadata, status } from '@grpc/grpc-js';
import { type ConnectionOptions, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];

/**
 * The interceptors for `Connection.connect` and `Connection.lazy`: the SDK's retries, and an end for calls that wait for a
 * retry when their connection is closed. The SDK alone makes that retry from a timer, where the closed channel throws
 * and ends the process.
 * @param options.retriedBySender names of RPC methods whose caller retries them itself
 */
export function grpcInterceptors({ retriedBySender = [] }: { retriedBySender?: string[] } = {}): Interceptor[] {
  const retry = makeGrpcRetryInterceptor(defaultGrpcRetryOptions());
  const once = makeGrpcRetryInterceptor({ retryableDecider: () => false, delayFunction: () => 0 });
  const notRetried = new Set(retriedBySender);
  return [
    (options, nextCall) => {
      const name = options.method_definition.path.split('/').at(-1) ?? '';
      return (notRetried.has(name) ? once : retry)(options, nextCall);
    },
    cancelWhenClosed,
  ];
}

/** What a channel throws that is closed. */
const CLOSED = 'Channel has been shut down';

/** Ends a call with CANCELLED, which is not retried, if its channel cannot create it because it is closed. */
const cancelWhenClosed: Interceptor = (options, nextCall) => {
  try {
    return new InterceptingCall(nextCall(options));
  } catch (error) {
    if (!(error instanceof Error && error.message === CLOSED)) throw error;
    const { message: details } = error;
    return new InterceptingCall({
      start: (_metadata, listener) => {
        listener?.onReceiveMessage?.(null);
        listener?.onReceiveStatus?.({ code: status.CANCELLED, details, metadata: new Metadata() });
      },
      cancelWithStatus: () => {},
      getPeer: () => 'unknown',
      sendMessage: () => {},
      sendMessageWithContext: () => {},
      startRead: () => {},
      halfClose: () => {},
      getAuthContext: () => null,
    });
  }
};
