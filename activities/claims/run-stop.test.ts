import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { OVERDUE_MS, RunStop } from './run-stop.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('R7 work that ignores the turn’s time limit fails its activity, as one to be tried again', async () => {
  using stop = new RunStop(createMemoryBus(), { session_id: 'ses_1', run_seq: 1 }, new AbortController().signal);
  const failed = vi.fn<(error: unknown) => void>();
  stop.inTime(new Promise(() => {})).catch(failed);
  stop.limitTo(1_000);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(stop.why).toBe('wall_clock');
  await vi.advanceTimersByTimeAsync(OVERDUE_MS - 1);
  expect(failed).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(failed.mock.calls).toMatchObject([[{ type: 'Overdue', nonRetryable: false }]]);
});
