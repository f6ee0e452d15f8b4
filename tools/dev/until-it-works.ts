import { setTimeout as delay } from 'node:timers/promises';

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 10_000;

/**
 * Repeats what may fail because a server is away, with growing pauses.
 * @param complain takes the reason of a failure and the milliseconds until the next try
 * @throws what is no failure to connect; an AbortError when the signal comes
 */
export async function untilItWorks(
  work: () => Promise<unknown>,
  complain: (reason: string, waitMs: number) => void,
  signal: AbortSignal,
): Promise<void> {
  for (let wait = FIRST_DELAY_MS; ; wait = Math.min(wait * 2, LONGEST_DELAY_MS)) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isAway(error)) throw error;
      complain(reasonOf(error), wait);
      await delay(wait, undefined, { signal });
    }
  }
}

/** Whether it is the connection that failed, not what was asked of the server. */
function isAway(error: unknown): boolean {
  const { code, message = '' } = error as { code?: unknown; message?: string };
  const refused = ['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', '57P03'];
  // 14 and 4 are gRPC's UNAVAILABLE and DEADLINE_EXCEEDED.
  return refused.includes(String(code)) || code === 14 || code === 4 || /failed to connect/i.test(message);
}

function reasonOf(error: unknown): string {
  const { code, message = '' } = error as { code?: unknown; message?: string };
  return message === '' ? String(code) : message;
}
