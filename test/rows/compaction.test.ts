// What the functions of store/sql/compaction.sql do by themselves; test/conversation/ has the rest.
import { expect, it } from 'vitest';
import type { z } from 'zod';
import { newId } from '../../domain/ids.ts';
import { modelView } from '../../domain/model-view.ts';
import { claimCompaction, viewByHand } from '../../store/compaction.ts';
import { readSession } from '../../store/sessions.ts';
import { viewMessages, type viewPart } from '../../store/view-messages.ts';
import * as compacting from './compacting.ts';
import { conversation, everything, told } from './conversation.ts';
import { call, freshRows, rows, type Session } from './session.ts';

const db = await freshRows();

/** Messages without steps, after all others of a session. */
async function addMessages(session: Session, count: number): Promise<void> {
  await rows(
    db,
    `INSERT INTO chat_messages (session_id, id, position, role)
     SELECT $1, 'm' || (last + n * 1000), last + n * 1000, 'user'
       FROM (SELECT max(position) / 1000 * 1000 AS last FROM chat_messages WHERE session_id = $1) AS newest,
            generate_series(1, $2::integer) AS n`,
    [session.id, count],
  );
}

it('X5 what the provider counted is looked for among the newest 1,000 messages and runs', async () => {
  const session = await conversation(db, 'one');
  const windowOf = async () => (await readSession(db, 'ada', session.id))?.window;
  const counted = { model: 'test/model', tokens: 2 };
  expect(await windowOf()).toEqual(counted);
  await addMessages(session, 999);
  expect(await windowOf()).toEqual(counted);
  const runs = (count: number) =>
    rows(
      db,
      `INSERT INTO chat_runs (session_id, seq, message_id, answer_id, state)
       SELECT $1, last + n, 'm', 'a' || n, 'cancelled'
         FROM (SELECT max(seq) AS last FROM chat_runs WHERE session_id = $1) AS newest, generate_series(1, $2::integer) AS n`,
      [session.id, count],
    );
  await runs(999);
  expect(await windowOf()).toEqual(counted);
  await runs(1);
  expect(await windowOf()).toEqual({ ...counted, tokens: null });
  await addMessages(session, 1);
  expect(await windowOf()).toBeNull();
  await told(session, 'two');
  expect(await windowOf()).toMatchObject({ tokens: 1_003 });
});

it('X5 a run by hand is aborted if that was asked for before it ends, and keeps its summary', async () => {
  const session = await conversation(db, 'one', 'two', 'three');
  const finish = (run: number) => call(db, 'finish_compaction', [session.id, run, [0, run, 1]]);
  const begun = async () => {
    const { run_seq: run } = (await session.apply('compact', {})) as { run_seq: number };
    await call(db, 'claim_compaction', [session.id, run, [0, run, 1], null]);
    return run;
  };
  const summarize = (run: number) => {
    const data = { summary: 'short', tail_start_id: 'three' };
    const made = { message_id: `s${run}`, part_id: `p${run}`, metadata: {}, type: 'data-compaction', data, usage: {} };
    const args = [session.id, run, [0, run, 1], JSON.stringify(made), '{"state": "summarized"}', null];
    return call(db, 'store_compaction', args);
  };
  const first = await begun();
  expect(await call(db, 'finish_compaction', [session.id, first, [0, first, 0]])).toEqual({ kind: 'lost' });
  expect(await summarize(first)).toBe(true);
  await session.abort();
  expect(await finish(first)).toEqual({ kind: 'ended', state: 'aborted', code: null });
  expect(await finish(first)).toEqual({ kind: 'ended', state: 'aborted', code: null });
  expect((await session.messages()).find((row) => row['id'] === `s${first}`)).toMatchObject({ hidden_at: null });
  await told(session, 'four');
  const second = await begun();
  expect(await finish(second)).toEqual({ kind: 'ended', state: 'finished', code: null });
});

it.each([
  ['compact', 'NothingToCompact'],
  ['prune', 'NothingToPrune'],
])('X5 X9 "%s" by hand is refused if its run would find nothing, or a turn came meanwhile', async (command, code) => {
  const session = await conversation(db, 'one', 'two');
  const ask = (judged: object) => session.apply(command, judged);
  const { newest_run } = (await viewByHand(db, session.id))!;
  expect(newest_run).toBe(2);
  const before = await everything(session);
  expect(await ask({ newest_run, nothing: true })).toMatchObject({ ok: false, code });
  expect(await ask({ newest_run: null })).toMatchObject({ ok: false, code: 'RunInFlight' });
  await told(session, 'three');
  expect(await ask({ newest_run, nothing: false })).toMatchObject({ ok: false, code: 'RunInFlight' });
  expect((await everything(session)).slice(0, before.length)).toEqual(before);
  expect(await ask({ newest_run: 3, nothing: false })).toMatchObject({ ok: true, run_seq: 4 });
  expect(await viewByHand(db, session.id), 'a run is open').toBeUndefined();
});

/** A session whose last answer has called tools with these outputs: texts, or the rest of the part. */
async function calling(outputs: readonly (string | { state: string })[]): Promise<Session> {
  const session = await conversation(db, 'one');
  const { run_seq: run } = (await session.say('read', { id: 'read' })) as { run_seq: number };
  await session.claim(run, [0, run, 1]);
  const parts = outputs.map((output, index) => {
    const state = typeof output === 'string' ? { state: 'output-available', output } : output;
    const toolCallId = `call_${index}`;
    const data = { type: 'tool-read', toolCallId, input: { n: index }, ...state };
    return { id: newId('prt'), index, type: data.type, data, tool_call_id: toolCallId, tool_state: data.state };
  });
  await session.settleStep(run, [0, run, 1], { parts, end: true });
  return session;
}

/** What a step of a new turn has in its view. */
async function viewOfStep(session: Session, id: string) {
  const { run_seq: run } = (await session.say(id, { id })) as { run_seq: number };
  const claimed = (await session.claim(run, [0, run, 1])) as { view: z.infer<typeof viewPart>[] | null };
  await session.settleRun(run, 'aborted');
  return claimed.view;
}

const shown = (view: z.infer<typeof viewPart>[]) => JSON.stringify(modelView(viewMessages(view)));

it('X9 what the model does not see is left out of what a step loads, and it sees the same, byte for byte', async () => {
  const preliminary = { state: 'output-available', output: 'so far', preliminary: true };
  const failed = { state: 'output-error', errorText: 'no' };
  const session = await calling(['secret 1', preliminary, failed, 'kept', 'secret 4']);
  for (const at of [0, 1, 2, 4]) await compacting.pruneByHand(session, `call_${at}`);
  await rows(
    db,
    `INSERT INTO chat_parts (id, message_id, session_id, index, type, data)
     SELECT 'custom', id, session_id, 50, 'data-chart', '{"type": "data-chart", "data": "secret 5"}'
       FROM chat_messages WHERE session_id = $1 AND id = 'read'`,
    [session.id],
  );
  const view = (await viewOfStep(session, 'last'))!;
  const whole = await rows(
    db,
    `SELECT m.id, m.role, false AS aborted, p.data FROM chat_messages m JOIN chat_parts p USING (session_id)
      WHERE session_id = $1 AND m.id = p.message_id ORDER BY m.position, p.index`,
    [session.id],
  );
  expect(shown(view)).toBe(shown(whole as z.infer<typeof viewPart>[]));
  expect(shown(view)).toContain('kept');
  expect(
    JSON.stringify(whole)
      .match(/secret \d/g)
      ?.toSorted(),
  ).toEqual(['secret 1', 'secret 4', 'secret 5']);
  expect(JSON.stringify(view)).not.toContain('secret');
});

it('X9 outputs that are pruned do not count towards the 32 MiB, and a run by hand gets the beginning of more', async () => {
  const session = await calling([1, 2, 3, 4, 5].map((n) => `output ${n}`));
  await rows(
    db,
    `UPDATE chat_parts SET data = data || jsonb_build_object('output', (data ->> 'output') || repeat(' words', $2))
      WHERE session_id = $1 AND type = 'tool-read'`,
    [session.id, (9 * 1024 ** 2) / 6],
  );
  expect(await viewOfStep(session, 'long')).toBeNull();
  const begun = shown((await viewByHand(db, session.id))!.view);
  for (const n of [1, 2, 3]) expect(begun).toContain(`output ${n}`);
  expect(begun).not.toContain('output 4');
  await compacting.pruneByHand(session, 'call_0');
  expect(await viewOfStep(session, 'still_long')).toBeNull();
  const later = shown((await viewByHand(db, session.id))!.view);
  expect(later).toContain('<output pruned');
  expect(later.match(/output \d/g)).toEqual(['output 2', 'output 3', 'output 4']);
  await compacting.pruneByHand(session, 'call_1');
  const view = shown((await viewOfStep(session, 'shorter'))!);
  expect(view.match(/output \d/g)).toEqual(['output 3', 'output 4', 'output 5']);
  expect(view.length).toBeGreaterThan(27 * 1024 ** 2);
});

it.each(['compact', 'prune'])(
  'X5 X9 "%s" by hand leaves the messages that were queued meanwhile to their turns',
  async (command) => {
    const session = await conversation(db, 'one', 'two');
    const { run_seq: seen } = (await session.say('three', { id: 'three' })) as { run_seq: number };
    await session.claim(seen, [0, 1, 1]);
    const output = { type: 'tool-look', toolCallId: 'call_1', state: 'output-available', output: 'long '.repeat(500) };
    const part = {
      id: 'prt_1',
      index: 0,
      type: 'tool-look',
      data: output,
      tool_call_id: 'call_1',
      tool_state: 'output-available',
    };
    await session.settleStep(seen, [0, 1, 1], { parts: [{ ...part, settled: true }], end: true });
    const asked = await session.apply(command, {});
    expect(asked).toMatchObject({ ok: true });
    const { run_seq: queued } = (await session.say('four', { id: 'four' })) as { run_seq: number };
    await session.say('five', { id: 'five' });
    const run = asked['run_seq'] as number;
    const mine = { sessionId: session.id, runSeq: run, fence: [1, 1, 1] as const };
    const claimed = await claimCompaction(db, mine, Date.now());
    const ids = viewMessages(claimed.kind === 'claimed' ? (claimed.view ?? []) : []).map(({ id }) => id);
    expect(ids).toContain('three');
    expect(ids).not.toContain('four');
    if (command === 'compact') expect(await compacting.summarize(session, run, [1, 2, 1])).toBeDefined();
    else await compacting.prune(session, run, [1, 2, 1]);
    const visible = (await session.messages()).filter(({ hidden_at }) => hidden_at === null);
    const roles = visible.map(({ id, role }) => (role === 'user' ? id : 'answer'));
    const kept =
      command === 'compact'
        ? ['answer', 'three', 'answer']
        : ['one', 'answer', 'two', 'answer', 'three', 'answer', 'answer'];
    expect(roles).toEqual([...kept, 'four', 'five']);
    await session.settleRun(run, 'aborted');
    const { view } = (await session.claim(queued, [1, 3, 1])) as { view: { id: string }[] };
    expect(view.map(({ id }) => id)).toContain('four');
  },
);
