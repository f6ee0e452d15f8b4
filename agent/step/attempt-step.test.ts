import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { ContentUnavailableError } from '../../domain/content-unavailable-error.ts';
import { defineAgent } from '../definition/define.ts';
import { StopSignal } from '../stop-signal.ts';
import { attemptStep, type BrokenStep, type StepAttempt } from './attempt-step.ts';

const READER = { id: 'reader', description: 'Reads.', mode: 'primary' as const, prompt: 'Read.', tools: [] };

/** How an attempt ends whose attachments cannot be read. */
async function broken(more: Partial<StepAttempt> & { limitMs?: number; timeout?: number; readMs?: number }) {
  using stop = new StopSignal();
  stop.limitTo(more.limitMs ?? 60_000);
  const agent = defineAgent({ ...READER, ...(more.timeout && { timeout: more.timeout }) });
  const attempt = { agent, step: 0, tokens: 0, attempt: 1, waited: 0, attempts: 2, stop, ...more };
  return await attemptStep<BrokenStep>(attempt, {
    prepare: async () => {
      await delay(more.readMs ?? 0, undefined, { signal: stop.signal });
      throw new ContentUnavailableError('the store of attachments cannot be reached');
    },
    add: () => {},
    close: () => Promise.resolve(),
    complete: () => Promise.reject(new Error('it must not complete')),
    breakOff: (end) => Promise.resolve(end),
  });
}

it('T10 R6 a turn waits for the store of attachments while it has time, however often, and longer each time', async () => {
  using _ = vi.spyOn(Math, 'random').mockReturnValue(0);
  const retries = await Promise.all([0, 1, 3, 40].map((waited) => broken({ attempt: waited + 1, waited })));
  const code = 'AttachmentsUnavailable';
  expect(retries.map((end) => end.kind === 'retry' && end.retry)).toMatchObject([
    { attempt: 1, code, delayMs: 500 },
    { attempt: 2, code, delayMs: 1_000 },
    { attempt: 4, code, delayMs: 4_000 },
    { attempt: 41, code, delayMs: 30_000 },
  ]);
});

it('T10 R6 it ends when it would have to wait longer than it may, and says what to do', async () => {
  expect(await broken({ attempt: 41, waited: 40, limitMs: 10_000 })).toMatchObject({
    kind: 'error',
    failure: {
      code: 'AttachmentsUnavailable',
      message: expect.stringMatching(
        /cannot be reached; .* than the turn has time left: have the message answered again/,
      ),
    },
  });
});

it('T10 R6 the time limit of a model call does not count what its attachments take', async () => {
  expect(await broken({ timeout: 20, readMs: 60 })).toMatchObject({
    kind: 'retry',
    retry: { code: 'AttachmentsUnavailable' },
  });
});
