import pRetry from 'p-retry';

/**
 * Repeats work that fails because a server cannot be reached, with growing pauses of 0.5 to 10 s.
 * @param complain takes the reason of a failure and the milliseconds until the next attempt
 * @throws errors other than failed connections, at once; the signal's reason when it is aborted
 */
export async function untilItWorks(
  work: () => Promise<unknown>,
  complain: (reason: string, waitMs: number) => void,
  signal: AbortSignal,
): Promise<void> {
  await pRetry(work, {
    retries: Infinity,
    minTimeout: 500,
    maxTimeout: 10_000,
    signal,
    shouldRetry({ error, retryDelay }) {
      if (!isUnreachable(error)) return false;
      complain(reasonOf(error), retryDelay);
      return true;
    },
  });
}

/** Whether the connection failed, and not the request. */
function isUnreachable(error: unknown): boolean {
  const { code, message = '' } = error as { code?: unknown; message?: string };
  const refused = ['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', '57P03'];
  // 14 and 4 are gRPC's UNAVAILABLE and DEADLINE_EXCEEDED.
  return refused.includes(String(code)) || code === 14 || code === 4 || /failed to connect/i.test(message);
}

function reasonOf(error: unknown): string {
  const { code, message = '' } = error as { code?: unknown; message?: string };
  return message === '' ? String(code) : message;
}
