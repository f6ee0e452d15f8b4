import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Fence } from '../../domain/runs.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { freshRows, type Row, Session, textPart } from './session.ts';

const db = await freshRows();

const KEYS = ['input', 'output', 'reasoning', 'cache_read', 'cache_write'] as const;
type Numbers = Record<(typeof KEYS)[number], number>;

const sum = (usages: readonly Partial<Numbers>[]): Numbers =>
  Object.fromEntries(
    KEYS.map((key) => [key, usages.reduce((total, usage) => total + (usage[key] ?? 0), 0)]),
  ) as Numbers;

/** A session's expected sums, computed from its messages. */
function recompute(messages: readonly Row[]): Row {
  const answers = messages
    .filter((message) => message['role'] === 'assistant')
    .map((message) => message['metadata'] as Row);
  const total = sum(answers.map((metadata) => (metadata['usage'] as Numbers | undefined) ?? {}));
  const steps = answers.flatMap((metadata) => (metadata['steps'] ?? []) as { cost_usd?: number }[]);
  const costs = steps.flatMap(({ cost_usd }) => (typeof cost_usd === 'number' ? [cost_usd] : []));
  return {
    prompt_tokens: total.input,
    completion_tokens: total.output,
    reasoning_tokens: total.reasoning,
    cache_read: total.cache_read,
    cache_write: total.cache_write,
    total_tokens: KEYS.reduce((all, key) => all + total[key], 0),
    cost_usd: costs.length === 0 ? null : costs.reduce((all, cost) => all + cost, 0),
  };
}

const count = fc.nat({ max: 2 ** 31 });
const step = fc.record({
  usage: fc.record(Object.fromEntries(KEYS.map((key) => [key, count])), { requiredKeys: [] }),
  // Whole numbers of cents in binary, so that sums are exact on both sides.
  cost: fc.option(fc.nat({ max: 1000 }).map((n) => n / 128)),
  sentAgain: fc.boolean(),
});
const turn = fc.record({
  steps: fc.array(step, { maxLength: 4 }),
  end: fc.constantFrom('finished', 'aborted', 'error', 'cancelled', 'lost and claimed again'),
  hidden: fc.boolean(),
});

it('U2 the sums of a session are those of its messages, whatever happened to its turns', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 6 }), async (turns) => {
      const session = await Session.at('chatting', db);
      let ordinal = 0;
      const spent: Partial<Numbers>[] = [];
      for (const { steps, end, hidden } of turns) {
        const { run_seq: run } = (await session.say('go on')) as { run_seq: number };
        for (const [n, { usage, cost, sentAgain }] of (end === 'cancelled' ? [] : steps).entries()) {
          const fence: Fence = [0, (ordinal += 1), 1];
          await session.claim(run, fence, n);
          await session.append(run, fence, [textPart(n, 'words')]);
          const settlement = {
            step: n,
            nextIndex: n + 1,
            usage,
            cost,
            end: end === 'finished' && n === steps.length - 1,
          };
          const lost = end === 'lost and claimed again';
          if (lost) await session.claim(run, [0, ordinal, 2], n);
          const writer: Fence = lost ? [0, ordinal, 2] : fence;
          if (lost) expect(await session.settleStep(run, fence, settlement)).toEqual({ kind: 'lost' });
          await session.settleStep(run, writer, settlement);
          if (sentAgain) await session.settleStep(run, writer, settlement);
          spent.push(usage);
        }
        const { message_id, answer_id } = await session.run(run);
        if (end === 'cancelled') await session.cancelQueued(message_id as string);
        else await session.settleRun(run, end === 'error' ? 'error' : 'aborted');
        if (hidden)
          await db.query('UPDATE chat_messages SET hidden_at = now() WHERE session_id = $1 AND id = $2', [
            session.id,
            answer_id,
          ]);
      }
      const { prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens, cost_usd } =
        await session.chat();
      const messages = await session.messages();
      const stored = { prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens };
      expect({ ...stored, cost_usd: cost_usd === null ? null : Number(cost_usd) }).toEqual(recompute(messages));
      const { input, output, reasoning, ...cache } = sum(spent);
      expect(stored).toMatchObject({
        prompt_tokens: input,
        completion_tokens: output,
        reasoning_tokens: reasoning,
        ...cache,
      });
      for (const { role, metadata } of messages) {
        const { usage, steps } = metadata as { usage?: Numbers; steps?: { usage: Numbers }[] };
        if (role === 'assistant' && usage) expect(usage).toEqual(sum(steps!.map((one) => one.usage)));
      }
    }),
    cases(60),
  );
});

it('U1 a step stores its five numbers, its model and its finish reason, and nothing else is summed', async () => {
  const session = await Session.at('chatting', db);
  await session.say('hello');
  await session.claim(1, [0, 1, 1]);
  const usage = { input: 10, output: 5, total: 15, cost: 3 };
  await session.settleStep(1, [0, 1, 1], { usage, cost: null, end: true });
  const five = { input: 10, output: 5, reasoning: 0, cache_read: 0, cache_write: 0 };
  const [, answer] = await session.messages();
  expect(answer!['metadata']).toMatchObject({
    usage: five,
    steps: [{ usage: five, model: 'test/model', finish_reason: 'stop' }],
  });
  expect((answer!['metadata'] as { steps: Row[] }).steps[0]).not.toHaveProperty('tokens');
  expect(await session.chat()).toMatchObject({ total_tokens: 15, cost_usd: null });
  expect(await session.run(1)).toMatchObject({ tokens: 1, step: 1, state: 'finished' });
});
