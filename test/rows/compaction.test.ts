// What the functions of store/sql/compaction.sql do by themselves; test/conversation/ has the rest.
import { expect, it } from 'vitest';
import { claimCompaction } from '../../store/compaction.ts';
import { readSession } from '../../store/sessions.ts';
import { viewMessages } from '../../store/view-messages.ts';
import * as compacting from './compacting.ts';
import { conversation, told } from './conversation.ts';
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
    const { run_seq: run } = (await session.apply('compact', { tail_turns: 1 })) as { run_seq: number };
    await call(db, 'claim_compaction', [session.id, run, [0, run, 1], null]);
    return run;
  };
  const summarize = (run: number) => {
    const data = { summary: 'short', tail_start_id: 'three' };
    const made = { message_id: `s${run}`, part_id: `p${run}`, metadata: {}, type: 'data-compaction', data, usage: {} };
    const args = [session.id, run, [0, run, 1], JSON.stringify(made), '{"state": "summarized"}'];
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

it('X9 NothingToPrune once every large output is pruned, and again after an un-rewind', async () => {
  const session = await conversation(db, 'one');
  const output = (toolCallId: string, index: number) => ({
    ...{ id: `p-${toolCallId}`, index, type: 'tool-read', tool_call_id: toolCallId, tool_state: 'output-available' },
    data: { type: 'tool-read', toolCallId, state: 'output-available', output: 'x'.repeat(500) },
  });
  const { run_seq: run } = (await session.say('read', { id: 'read' })) as { run_seq: number };
  await session.claim(run, [0, run, 1]);
  await session.settleStep(run, [0, run, 1], { parts: [output('a', 0), output('b', 1)], end: true });
  await told(session, 'last');
  const ask = () => session.apply('prune', { min_tokens: 100, keep: 0, protected: [] });
  const pruned = async (...calls: string[]) => {
    const { run_seq: n } = (await ask()) as { run_seq: number };
    await call(db, 'claim_compaction', [session.id, n, [0, n, 1], null]);
    const outputs = calls.map((id) => ({ tool_call_id: id, tokens: 100 }));
    const made = {
      ...{ message_id: `m${n}`, part_id: `q${n}`, metadata: {}, type: 'data-prune' },
      data: { outputs, tokens: 100, auto: false },
    };
    const args = [session.id, n, [0, n, 1], JSON.stringify(made), '{"state": "pruned"}'];
    expect(await call(db, 'store_prune', args)).toBe(true);
    expect(await call(db, 'finish_compaction', [session.id, n, [0, n, 1]])).toMatchObject({ state: 'finished' });
  };
  await pruned('a');
  await pruned('b');
  expect(await ask()).toMatchObject({ ok: false, code: 'NothingToPrune' });
  await session.rewind('last');
  await session.unrewind();
  expect(await ask()).toMatchObject({ ok: false, code: 'NothingToPrune' });
  await session.rewind('last');
  expect(await ask()).toMatchObject({ ok: true });
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
    const asked = await session.apply(command, { tail_turns: 1, min_tokens: 20, keep: 0, protected: [] });
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
