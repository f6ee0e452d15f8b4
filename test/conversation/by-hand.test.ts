// Compactions and prunes by hand: what they accept, and conversations that are too long for anything else.
import { randomBytes } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { refusalOf } from '../faults/answered.ts';
import { agent, CATALOG, messages, requests, send, SUMMARY, talking, tell, visible, words } from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    defaultModel: 'openai/small',
    catalog: CATALOG,
    agents: [
      agent('talker'),
      agent('by-hand', { auto: false }),
      agent('keeps-none', { prune_keep: 0, prune_min_tokens: 50 }),
    ],
  });
  runtime.model.script(talking());
});

const open = (id: string) => TestSession.open(runtime, { agent: id });
type ByHand = typeof updates.compact | typeof updates.prune;

async function byHand(session: TestSession, command: ByHand): Promise<void> {
  const { run_seq: run } = await session.command(command);
  expect(await session.ended(run)).toMatchObject({ state: 'finished' });
}

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

it('X5 X6 also after a message without an answer that fills the window by itself', async () => {
  const session = await open('by-hand');
  await tell(session, [words(500, 'one'), words(500, 'two')]);
  const refused = await session.ended(await send(session, words(3_000, 'three')));
  expect(refused).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
  await byHand(session, updates.compact);
  const shown = (await visible(runtime, session)).map((text) => text.split(' ')[0]);
  expect(shown).toEqual(['data-compaction', 'two', 'You', 'three']);
});

it('X9 a command by hand ends, whatever the outputs in sight: to count all that stays would take longer than it may', async () => {
  const session = await open('talker');
  await tell(session, ['read a 5', 'todo b 5']);
  // Of such text about 1.2 MiB are counted in a second.
  const output = randomBytes(9 * 1024 ** 2).toString('base64');
  await runtime.db.query(
    `UPDATE chat_parts SET data = data || jsonb_build_object('output', $2::text)
      WHERE session_id = $1 AND tool_state = 'output-available'`,
    [session.id, output],
  );
  expect(await refusalOf(session.command(updates.prune))).toMatchObject({ code: 'NothingToPrune' });
  expect(await refusalOf(session.command(updates.prune))).toMatchObject({ code: 'NothingToPrune' });
});

/** A session with five outputs of 7 MiB in sight, in which no turn is possible. */
async function beyond(): Promise<TestSession> {
  const session = await open('keeps-none');
  await tell(
    session,
    ['a', 'b', 'c', 'd', 'e'].map((name) => `read ${name} 60`),
  );
  await runtime.db.query(
    `UPDATE chat_parts SET data = data || jsonb_build_object('output', (data ->> 'output') || repeat('word ', $2))
      WHERE session_id = $1 AND tool_state = 'output-available'`,
    [session.id, Math.floor((7 * 1024 ** 2) / 5)],
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

it('X5 X8 so does a compaction by hand', async () => {
  const session = await beyond();
  await byHand(session, updates.compact);
  expect((await visible(runtime, session))[0]).toBe('data-compaction');
  await tell(session, ['and now?']);
  expect(JSON.stringify(requests(runtime, 'turn').at(-1)!.messages)).toContain(JSON.stringify(SUMMARY).slice(1, -1));
});
