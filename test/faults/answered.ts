import { expect } from 'vitest';
import type { RecordedRequest } from '../../tools/test-kit/model-server.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';

/** How often the model was called for each message, by its text. */
export function askedAbout(requests: readonly RecordedRequest[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { body } of requests) {
    const text = lastUserText(body);
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return counts;
}

/**
 * Wakes a session for an accepted message until the update succeeds. A wake-up that arrives as a workflow ends may fail; its
 * retry under the same id must not.
 * @returns how often it failed
 */
export async function wakeSurely(session: TestSession, accepted: { run: number; message: string }): Promise<number> {
  try {
    await session.wake(accepted.run, accepted.message);
    return 0;
  } catch {
    await session.wake(accepted.run, accepted.message);
    return 1;
  }
}

/** The code and details of a refused update. */
export async function refusalOf(update: Promise<unknown>): Promise<{ code: string; details: unknown }> {
  try {
    await update;
  } catch (error) {
    const { type, details } = (error as { cause?: { type?: string; details?: unknown[] } }).cause ?? {};
    return { code: type ?? String(error), details: details?.[0] };
  }
  return expect.unreachable('the update should have been refused');
}
