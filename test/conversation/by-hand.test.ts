// Compactions and prunes by hand: what they accept, and conversations that are too long for anything else.
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { Gate } from '../../tools/test-kit/gate.ts';
import { fail, failContextLength, type ModelAction } from '../../tools/test-kit/model-actions.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { refusalOf } from '../faults/answered.ts';
import { aroundCalls } from '../faults/sql-calls.ts';
import { agent, byHand, messages, requests, send, startSmall, SUMMARY, talking, tell, visible, words } from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startSmall({
    agents: [
      agent('talker'),
      agent('by-hand', { auto: false }),
      // Reading megabytes takes a slow machine longer than a summary may take by default.
      agent('keeps-none', { prune_keep: 0, prune_min_tokens: 50, summarizer_timeout: 600_000 }),
    ],
  });
});
beforeEach(() => runtime.model.script(talking()));

const open = (id: string) => TestSession.open(runtime, { agent: id });

it('X5 X6 two turns that take more than their share are compacted by hand, as they would be by themselves', async () => {
  const session = await open('talker');
  await tell(session, [words(500, 'one'), words(500, 'two')]);
  await byHand(session, updates.compact);
  const shown = (await visible(runtime, session)).map((text) => text.split(' ')[0]);
  expect(shown).toEqual(['data-compaction', 'two', 'You']);
});

it('X5 X6 two turns within their share are NothingToCompact, and nothing changes', async () => {
  const session = await open('talker');
  await tell(session, ['one', 'two']);
  const [before, from] = [await messages(runtime, session), runtime.model.requests.length];
  expect(await refusalOf(session.command(updates.compact))).toMatchObject({ code: 'NothingToCompact' });
  expect(await messages(runtime, session)).toEqual(before);
  expect(runtime.model.requests).toHaveLength(from);
});

it('X5 X6 two turns before a message without an answer that fills the window by itself are compacted', async () => {
  const session = await open('by-hand');
  await tell(session, [words(500, 'one'), words(500, 'two')]);
  const refused = await session.ended(await send(session, words(3_000, 'three')));
  expect(refused).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
  await byHand(session, updates.compact);
  const shown = (await visible(runtime, session)).map((text) => text.split(' ')[0]);
  expect(shown).toEqual(['data-compaction', 'two', 'You', 'three']);
});

it('X5 X9 a single turn is pruned instead, if there is an output to prune, and then is NothingToCompact', async () => {
  const session = await open('keeps-none');
  await tell(session, ['read a 100']);
  await byHand(session, updates.compact);
  expect(await visible(runtime, session)).toEqual(['read a 100', 'You said: read a 100', 'data-prune']);
  expect(await refusalOf(session.command(updates.compact))).toMatchObject({ code: 'NothingToCompact' });
});

it('X5 X9 a compaction of older turns prunes nothing of those that stay', async () => {
  const session = await open('keeps-none');
  await tell(session, [words(200, 'one'), 'two', 'read a 100']);
  await byHand(session, updates.compact);
  const shown = await visible(runtime, session);
  expect(shown[0]).toBe('data-compaction');
  expect(shown).not.toContain('data-prune');
});

it.each<[string, string, ModelAction, object]>([
  [
    'that its provider refuses',
    'keeps-none',
    fail(401),
    {
      error_code: 'CompactionFailed',
      error_message: expect.stringContaining(': the model provider refused the API key. Try again') as string,
    },
  ],
  [
    'for which the history is too long',
    'keeps-none',
    failContextLength(),
    { error_code: 'ContextTooLong', error_message: expect.stringContaining(': prune it, branch from') as string },
  ],
  [
    'for which the history is too long, without outputs to prune,',
    'talker',
    failContextLength(),
    { error_code: 'ContextTooLong', error_message: expect.stringContaining(': branch from') as string },
  ],
])('X7 X8 a compaction by hand with a summarizer %s ends with an error, and changes nothing', async (...given) => {
  const [, id, failure, error] = given;
  const session = await open(id);
  await tell(session, [words(200, 'one'), 'two', 'read a 100']);
  runtime.model.script(talking(() => [failure]));
  const before = await messages(runtime, session);
  const { run_seq: run } = await session.command(updates.compact);
  expect(await session.ended(run)).toMatchObject({ state: 'error', ...error });
  expect(await messages(runtime, session)).toEqual(before);
});

it('X5 a compaction by hand does not wait for rows that are slow: its run finds out whether there is anything to do', async () => {
  const session = await open('talker');
  await tell(session, ['one']);
  const slow = new Gate();
  using _hook = aroundCalls(runtime.db, { before: ({ name }) => (name === 'view_by_hand' ? slow.pass() : undefined) });
  await byHand(session, updates.compact);
  slow.open();
  expect(await refusalOf(session.command(updates.compact))).toMatchObject({ code: 'NothingToCompact' });
});

it('X5 X10 what cannot be judged, since the model is no longer configured, is left to the run, which says so', async () => {
  const session = await open('talker');
  await tell(session, ['one']);
  await runtime.db.query(`UPDATE chat_sessions SET model = 'none/x' WHERE session_id = $1`, [session.id]);
  const { run_seq: run } = await session.command(updates.compact);
  expect(await session.ended(run)).toMatchObject({ state: 'error', error_code: 'ModelNotConfigured' });
});

/** A session with four outputs of 9 MiB in sight and a small one, in which no turn is possible. */
async function beyond(): Promise<TestSession> {
  const session = await open('keeps-none');
  await tell(
    session,
    ['a', 'b', 'c', 'd', 'e'].map((name) => `read ${name} 60`),
  );
  await runtime.db.query(
    `UPDATE chat_parts SET data = data || jsonb_build_object('output', (data ->> 'output') || repeat('word ', $2))
      WHERE session_id = $1 AND tool_state = 'output-available' AND data ->> 'output' NOT LIKE 'd: %'`,
    [session.id, Math.floor((9 * 1024 ** 2) / 5)],
  );
  expect(await session.ended(await send(session, 'too long'))).toMatchObject({
    state: 'error',
    error_code: 'ContextTooLong',
    error_message: expect.stringContaining('compact or prune it') as string,
  });
  return session;
}

it('X9 a prune by hand mends a conversation of more than 32 MiB', async () => {
  const session = await beyond();
  await byHand(session, updates.prune);
  await tell(session, ['and now?']);
  expect(JSON.stringify(requests(runtime, 'turn').at(-1)!.messages).match(/<output pruned, \d+ tokens>/g)).toHaveLength(
    5,
  );
});

it('X5 X8 a compaction by hand mends a conversation of more than 32 MiB', async () => {
  const session = await beyond();
  await byHand(session, updates.compact);
  expect((await visible(runtime, session))[0]).toBe('data-compaction');
  await tell(session, ['and now?']);
  expect(JSON.stringify(requests(runtime, 'turn').at(-1)!.messages)).toContain(JSON.stringify(SUMMARY).slice(1, -1));
});
