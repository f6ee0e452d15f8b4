// Providers that send too much or too fast, beside a session whose provider does not.
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from '../faults/agent.ts';
import { expectSound } from '../faults/sound.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent] });
});

const WORDS = 50;
const PAUSE_MS = 20;
const MIB = 1024 ** 2;

async function* words(begun: () => void): AsyncGenerator<ModelAction> {
  for (let word = 0; word < WORDS; word += 1) {
    if (word === 5) begun();
    await delay(PAUSE_MS);
    yield say('word ');
  }
}

/** 10,000 deltas a second, for a second. */
async function* fast(): AsyncGenerator<ModelAction> {
  const from = performance.now();
  for (let sent = 0; sent < 10_000; sent += 1) {
    const early = from + sent / 10 - performance.now();
    if (early > 5) await delay(early);
    yield say('word ');
  }
}

/** 10 MB when they are quoted in JSON. */
const LOOK = callTool('p', 'look', { at: 'x\n"'.repeat(2_500_000) }, 20 * MIB);

const GREEDY: [
  name: string,
  greedy: (request: ChatRequest) => Iterable<ModelAction> | AsyncIterable<ModelAction>,
  end: [state: string, code: string | null],
][] = [
  ['10,000 deltas a second', fast, ['finished', null]],
  ['10 MB of text in one delta', () => [say('word '.repeat(2_000_000))], ['finished', null]],
  ['40 MB of text', () => Array.from({ length: 40 }, () => say('x'.repeat(MIB))), ['error', 'LimitReached']],
  [
    'a tool call with an input of 10 MB',
    ({ messages }) => [messages.at(-1)!.role === 'tool' ? say('seen') : LOOK],
    ['finished', null],
  ],
];

it.each(GREEDY)('Q2 another session goes on beside %s', async (_name, greedy, end) => {
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const script = async function* (request: ChatRequest): AsyncGenerator<ModelAction> {
    yield* lastUserText(request) === 'greedy' ? greedy(request) : words(begun.resolve);
    if (lastUserText(request) === 'greedy') await over.promise;
  };
  runtime.model.script(script);
  const normal = await TestSession.open(runtime, { agent: 'faults' });
  const other = await TestSession.open(runtime, { agent: 'faults' });
  const first = await normal.send('hello');
  await begun.promise;
  const second = await other.send('greedy');
  expect((await normal.ended(first)).state).toBe('finished');
  over.resolve();
  const run = await other.ended(second, 55_000);
  expect([run.state, run.error_code]).toEqual(end);
  await expectSound(runtime, normal.id);
  await expectSound(runtime, other.id);
});

it('Q2 a turn whose conversation cannot be loaded in time ends with ContextTooLong', async () => {
  runtime.model.script(() => [say('fine')]);
  const session = await TestSession.open(runtime, { agent: 'faults' });
  await session.ended(await session.send('hello'));
  const text = `UPDATE chat_parts SET data = jsonb_build_object('type', 'text', 'text', repeat('words ', $2)) WHERE session_id = $1`;
  await runtime.db.query(text, [session.id, 3_000_000]);
  const run = await session.ended(await session.send('and now?'));
  expect([run.state, run.error_code]).toEqual(['error', 'ContextTooLong']);
});
