// After the conversation has changed, readers get the tokens of what the model sees of it, before a step reports them.
import { beforeAll, expect, it } from 'vitest';
import { countTokens } from '../../agent/compaction/tokens.ts';
import { readSession } from '../../store/sessions.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { fail, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { aroundCalls } from '../faults/sql-calls.ts';
import { agent, byHand, CATALOG, isSummary, messages, requests, send, SUMMARY, talking, tell, words } from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  const agents = [agent('talker', { prune_keep: 0, prune_min_tokens: 50 })];
  runtime = await startRuntime({ defaultModel: 'openai/test', catalog: CATALOG, agents });
});

/** A session that has told these texts. */
async function told(...texts: string[]): Promise<TestSession> {
  runtime.model.script(talking());
  const session = await TestSession.open(runtime, { agent: 'talker' });
  await tell(session, texts);
  return session;
}

const windowOf = async ({ id, user }: TestSession) => (await readSession(runtime.db, user, id))!.window;

/** A command does not wait for a slow count. */
function countedOf(session: TestSession) {
  return eventually(async () => {
    const window = await windowOf(session);
    expect(window?.tokens).toEqual(expect.any(Number));
    return window!;
  });
}

async function idOf(session: TestSession, text: string): Promise<string> {
  return (await messages(runtime, session)).find(({ parts }) => parts.some((part) => part.text?.startsWith(text)))!.id;
}

/** The tokens of what a request has besides its last message, give or take what separates messages and names tools. */
async function tokensOf({ messages: sent, tools }: ChatRequest): Promise<number> {
  const texts = sent.slice(0, -1).map((each) => JSON.stringify(each));
  return countTokens([...texts, JSON.stringify(tools)].join('\n'));
}

/** Expects that the window is what the next request has, and then as its provider reports it. */
async function expectCounted(session: TestSession): Promise<void> {
  const counted = await countedOf(session);
  await tell(session, ['next']);
  const expected = await tokensOf(requests(runtime, 'turn').at(-1)!);
  expect(counted.model).toBe('openai/test');
  expect(Math.abs(counted.tokens! / expected - 1), `${counted.tokens} of ${expected}`).toBeLessThan(0.15);
  expect((await windowOf(session))!.tokens).not.toBe(counted.tokens);
}

const LONG = ['one', 'two', 'three', 'four'].map((topic) => words(900, topic));

it('U4 after a compaction the window has the prompt, the summary and the tail', async () => {
  const session = await told(...LONG);
  await byHand(session, updates.compact);
  await expectCounted(session);
});

it('U4 after a prune it has what the model still sees of the outputs', async () => {
  const session = await told('read old 600', words(900, 'two'), 'three');
  await byHand(session, updates.prune);
  await expectCounted(session);
});

it('U4 after a branch it has the copies', async () => {
  const session = await told(...LONG);
  const branched = await session.command(updates.branch, { from_message_id: await idOf(session, 'You said: two') });
  await expectCounted(TestSession.of(runtime, branched.session_id));
});

it('U4 neither a branch nor a compaction by hand waits for a slow count, which is kept when it ends', async () => {
  const session = await told(...LONG);
  const slow = new Gate();
  using _hook = aroundCalls(runtime.db, {
    before: ({ name }) => (name === 'window_to_count' ? slow.pass() : undefined),
  });
  const branched = await session.command(updates.branch, { from_message_id: await idOf(session, 'You said: two') });
  await byHand(session, updates.compact);
  const both = [TestSession.of(runtime, branched.session_id), session];
  for (const each of both) expect((await windowOf(each))?.tokens ?? null).toBeNull();
  slow.open();
  for (const each of both) await countedOf(each);
});

it('U4 after a rewind past a compaction it has the turns that the summary stood for, after an un-rewind the summary', async () => {
  const session = await told(words(1_500, 'one'), words(1_500, 'two'), ...LONG.slice(2));
  await byHand(session, updates.compact);
  const summarized = await countedOf(session);
  await session.command(updates.rewind, { message_id: await idOf(session, 'two') });
  const rewound = (await countedOf(session)).tokens!;
  expect(rewound / summarized.tokens!).toBeGreaterThan(1.25);
  await session.command(updates.unrewind);
  expect(await countedOf(session)).toEqual(summarized);
  await expectCounted(session);
});

it.each<[string, ModelAction, string]>([
  ['a compaction', say(SUMMARY), 'replaced by this summary'],
  ['a prune instead of one', fail(401), '<output pruned'],
])('U4 after %s in a turn, while its step has not reported and if that fails', async (_what, summary, expected) => {
  const session = await told('read old 600', ...LONG, ...LONG.slice(0, 2));
  const gate = new Gate();
  runtime.model.script(async (request) => {
    if (isSummary(request)) return [summary];
    await gate.pass();
    return [fail(401)];
  });
  const run = await send(session, words(2_500, 'long'));
  await gate.reached;
  const during = await windowOf(session);
  expect(during).toEqual({ model: 'openai/test', tokens: expect.any(Number) as number });
  gate.open();
  expect((await session.ended(run)).state).toBe('error');
  expect(await windowOf(session)).toEqual(during);
  expect(JSON.stringify(requests(runtime, 'turn').at(-1)!.messages)).toContain(expected);
});

it('U4 after a rewind to what a step has reported nothing is counted, after an un-rewind it is', async () => {
  const session = await told('one', 'two');
  const reported = await windowOf(session);
  await session.command(updates.rewind, { message_id: await idOf(session, 'two') });
  const counted = async () => {
    const sql = 'SELECT counted_tokens FROM chat_sessions WHERE session_id = $1';
    return (await runtime.db.query<{ counted_tokens: number | null }>(sql, [session.id])).rows[0]!.counted_tokens;
  };
  expect((await windowOf(session))!.tokens).toBeLessThan(reported!.tokens!);
  expect(await counted()).toBeNull();
  await session.command(updates.unrewind);
  await eventually(async () => expect(await counted()).toBeGreaterThan(0));
});
