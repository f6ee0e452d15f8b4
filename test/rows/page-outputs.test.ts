// Outcomes that pages give for calls that they carry out: give_output(), and what begin_tool() does with it.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { AFTER, asks, decided, give, STEP, TOOL, waitingForPage } from './asking.ts';
import { childOf, parentAndChild, withCall } from './family.ts';
import { call, freshRows, type Row, rows, Session } from './session.ts';

let db: pg.Pool;
beforeAll(async () => {
  db = await freshRows();
});

const PAGE = { page_ms: 3_600_000 };
const NOT_WAITING = { code: 'NotWaiting' };
const GIVEN = { ...NOT_WAITING, cause: 'another output was given' };
const ENDED = { ...NOT_WAITING, cause: 'it has ended without an output of the page' };
const ABORTED = { ...NOT_WAITING, cause: 'its turn was aborted' };

const outputs = async (session: Session) => (await session.events()).filter(({ kind }) => kind === 'tool_output');

/** As if the run had waited for longer than the page had. */
const tooLate = (session: Session) =>
  rows(
    db,
    `UPDATE chat_runs SET waiting = waiting || jsonb_build_object('until', clock_timestamp() - interval '1 second')
      WHERE session_id = $1`,
    [session.id],
  );

describe('a page that carries out a call', () => {
  it('P5 is waited for: the run has no activity, and when it is too late is in its row', async () => {
    const { session, run } = await waitingForPage(db);
    const row = await session.run(run);
    expect(row).toMatchObject({
      state: 'waiting',
      waiting: { tool_call_id: 'call_1', for: 'output', until: expect.any(String) as string },
    });
    const { until } = row['waiting'] as { until: string };
    expect((row['check_at'] as Date).getTime(), 'the sweeper looks when it is too late').toBe(
      new Date(until).getTime() + 2_000,
    );
    expect(await session.row()).toMatchObject({ pending_tool: null });
    const again = await session.beginTool(run, AFTER, 'call_1', PAGE);
    expect(again).toMatchObject({ kind: 'waiting' });
    expect(again['wait_ms']).toBeGreaterThan(0);
    expect(again['wait_ms']).toBeLessThanOrEqual(PAGE.page_ms);
  });

  it('W7 that is too late is noticed by the sweeper, which looks again as long as the run waits', async () => {
    const own = await freshRows();
    const { session, run } = await waitingForPage(own);
    const due = () => rows(own, 'SELECT * FROM claim_due_runs(10)');
    expect(await due()).toEqual([]);
    await own.query(`UPDATE chat_runs SET check_at = now() - interval '1 second' WHERE session_id = $1`, [session.id]);
    expect(await due()).toMatchObject([{ session_id: session.id, run_seq: run, state: 'running' }]);
    expect(await due()).toEqual([]);
    expect((await session.run(run))['check_at']).not.toBeNull();
  });

  it('P5 gives its outcome, which the next attempt gets, and every attempt after it', async () => {
    const { session, run } = await waitingForPage(db);
    expect(await give(session, { output: { place: 'here' } })).toMatchObject({ run_seq: run, repeated: false });
    expect(await session.run(run)).toMatchObject({ state: 'running', waiting: null });
    expect(await outputs(session)).toMatchObject([{ actor: 'user', data: { tool_call_id: 'call_1' } }]);
    const given = { given: { output: { place: 'here' } } };
    // Also if a rule that was made since then would deny the call.
    const denied = { ...decided('deny', [{ rule_id: 'rul_old' }]), ...PAGE };
    expect(await session.beginTool(run, AFTER, 'call_1', denied)).toMatchObject({ kind: 'begun', ...given });
    expect(await session.beginTool(run, [1, 1, 1], 'call_1', PAGE)).toMatchObject({ kind: 'again', ...given });
    await session.finishTool(run, [1, 1, 1], 'call_1');
    expect(await session.run(run)).toMatchObject({ given: null });
  });

  it('P5 is asked for its rules first: the outcome is not taken before the approval', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], STEP);
    await session.beginTool(run, TOOL, 'call_1', { ...asks('call_1'), ...PAGE });
    expect(await session.run(run)).toMatchObject({ waiting: { for: 'approval' } });
    expect(await give(session, { output: 1 })).toEqual(NOT_WAITING);
    await session.apply('answer', { tool_call_id: 'call_1', decision: 'once' });
    expect(await give(session, { output: 1 })).toEqual(NOT_WAITING);
    expect(await session.beginTool(run, AFTER, 'call_1', { ...asks('call_1'), ...PAGE })).toMatchObject({
      kind: 'waiting',
    });
    expect(await give(session, { output: 1 })).toMatchObject({ repeated: false });
  });
});

describe('the same outcome again', () => {
  it('P5 is a repeat, before and after the call is settled, whatever the tool has left of it', async () => {
    const { session, run } = await waitingForPage(db);
    const sent = { output: { place: 'here', accuracy: 5 } };
    const first = await give(session, sent);
    const repeat = { ...first, repeated: true };
    const before = await session.everything();
    expect(await give(session, sent)).toEqual(repeat);
    expect(await give(session, { output: { accuracy: 5, place: 'here' } })).toEqual(repeat);
    expect(await session.everything()).toEqual(before);
    await session.beginTool(run, AFTER, 'call_1', PAGE);
    expect(await give(session, sent)).toEqual(repeat);
    // Its schema knows no accuracy.
    await session.finishTool(run, AFTER, 'call_1', { data: { output: { place: 'here' } } });
    expect(await give(session, sent)).toMatchObject({ run_seq: run, repeated: true });
    for (const other of [{ output: { place: 'here' } }, { output: { place: 'there' } }, { error: 'lost' }]) {
      expect(await give(session, other)).toEqual(GIVEN);
    }
    expect(await outputs(session)).toHaveLength(1);
  });

  it('P5 is a repeat of an error, too, and of a null', async () => {
    for (const sent of [{ error: 'no permission' }, { output: null }]) {
      const { session, run } = await waitingForPage(db);
      expect(await give(session, sent)).toMatchObject({ repeated: false });
      await session.beginTool(run, AFTER, 'call_1', PAGE);
      await session.finishTool(run, AFTER, 'call_1', { data: { state: 'output-error', errorText: 'redacted' } });
      expect(await give(session, sent)).toMatchObject({ repeated: true });
      expect(await give(session, { output: 'redacted' })).toEqual(GIVEN);
    }
  });

  it('P5 is a repeat while the run waits for another call, and not its outcome', async () => {
    const { session, run } = await waitingForPage(db, ['call_1', 'call_2']);
    await give(session, { output: 'one' });
    await session.beginTool(run, AFTER, 'call_1', PAGE);
    await session.finishTool(run, AFTER, 'call_1');
    expect(await session.beginTool(run, [0, 4, 1], 'call_2', PAGE)).toMatchObject({ kind: 'waiting' });
    const before = await session.everything();
    expect(await give(session, { output: 'one' })).toMatchObject({ repeated: true });
    expect(await give(session, { output: 'two' })).toEqual(GIVEN);
    expect(await session.everything()).toEqual(before);
    expect(await give(session, { output: 'two' }, { callId: 'call_2' })).toMatchObject({ repeated: false });
  });

  it('P5 by ten at once is taken once; of ten others one', async () => {
    const { session: same } = await waitingForPage(db);
    const taken = await Promise.all(Array.from({ length: 10 }, () => give(same, { output: 'here' })));
    expect(taken.filter(({ repeated }) => repeated === false)).toHaveLength(1);
    expect(taken.filter(({ repeated }) => repeated === true)).toHaveLength(9);

    const { session: others, run } = await waitingForPage(db);
    const given = await Promise.all(Array.from({ length: 10 }, (_, n) => give(others, { output: n })));
    const won = given.findIndex((each) => each['repeated'] === false);
    expect(given.filter(({ code }) => code === 'NotWaiting')).toHaveLength(9);
    expect(await others.run(run)).toMatchObject({ given: { tool_call_id: 'call_1', output: won } });
    for (const session of [same, others]) expect(await outputs(session)).toHaveLength(1);
  });
});

describe('an outcome', () => {
  it('P5 of another user, of an unknown session or call, or that nobody waits for, is refused and writes nothing', async () => {
    const { session } = await waitingForPage(db, ['call_1', 'call_2']);
    const before = await session.everything();
    expect(await give(session, { output: 1 }, { user: 'eve' })).toEqual({ code: 'SessionNotFound' });
    expect(await give(new Session(db), { output: 1 })).toEqual({ code: 'SessionNotFound' });
    for (const callId of ['call_2', 'call_none'])
      expect(await give(session, { output: 1 }, { callId })).toEqual(NOT_WAITING);
    expect(await session.everything()).toEqual(before);
  });

  it('P5 that comes too late is refused once the run has gone on, under a fence of its own only', async () => {
    const { session, run } = await waitingForPage(db);
    await tooLate(session);
    for (const stale of [STEP, TOOL]) {
      expect(await session.beginTool(run, stale, 'call_1', PAGE)).toEqual({ kind: 'lost' });
    }
    expect(await session.beginTool(run, AFTER, 'call_1', PAGE)).toMatchObject({ kind: 'begun', given: { late: true } });
    expect(await give(session, { output: 'here' })).toEqual(ENDED);
    await session.finishTool(run, AFTER, 'call_1', { data: { state: 'output-error', errorText: 'not in time' } });
    expect(await give(session, { output: 'here' })).toEqual(ENDED);
    expect(await outputs(session)).toEqual([]);
  });

  it('P5 of a call that the server has carried out is refused', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], STEP);
    await session.beginTool(run, TOOL, 'call_1');
    await session.finishTool(run, TOOL, 'call_1');
    expect(await give(session, { output: 'here' })).toEqual(ENDED);
  });

  it('P5 that comes before the run has noticed that it is late counts', async () => {
    const { session, run } = await waitingForPage(db);
    await tooLate(session);
    expect(await give(session, { output: 'here' })).toMatchObject({ repeated: false });
    expect(await session.beginTool(run, AFTER, 'call_1', PAGE)).toMatchObject({
      ...{ kind: 'begun', given: { output: 'here' } },
    });
  });

  it('R4 after an abort is refused, and the call stays as the user saw it', async () => {
    const { session, run } = await waitingForPage(db);
    await session.abort();
    expect(await give(session, { output: 'here' })).toEqual(ABORTED);
    await session.settleRun(run, 'aborted');
    expect(await give(session, { output: 'here' })).toEqual(ABORTED);
    expect(await session.parts(run)).toMatchObject([{ tool_state: 'input-available' }]);
    expect(await session.run(run)).toMatchObject({ state: 'aborted', waiting: null, given: null });
  });
});

describe('a call of a session below', () => {
  /** Three generations, of which the youngest waits for a page, in the background of its parent. */
  async function waiting(callId = 'call_x') {
    const { parent, child } = await parentAndChild(db);
    const grandchild = await childOf(child);
    await withCall(grandchild, callId);
    await grandchild.beginTool(1, TOOL, callId, PAGE);
    return { parent, child, grandchild };
  }
  const questions = (session: Session) => call<Row[] | null>(db, 'waits_below', [session.id]);
  const here = { output: { place: 'here' } };
  const below = { callId: 'call_x' };

  it('H14 P5 is named by all above it, from which it is in the background or not', async () => {
    const { parent, child, grandchild } = await waiting();
    const [{ message_id }] = (await grandchild.parts(1)) as [{ message_id: string }];
    const named = { session_id: grandchild.id, agent: 'helper', message_id, tool_call_id: 'call_x' };
    const asked = { ...named, tool: 'build_and_deploy', for: 'output' };
    expect(await questions(parent)).toEqual([{ ...asked, background: false }]);
    expect(await questions(child)).toEqual([{ ...asked, background: true }]);
    expect(await questions(grandchild)).toBeNull();
  });

  it('H14 P5 gets its outcome in any of them, once: the same again is a repeat, another one is refused', async () => {
    for (const at of ['parent', 'child', 'grandchild'] as const) {
      const family = await waiting();
      const { parent, child, grandchild } = family;
      const taken = await give(family[at], here, below);
      const above = at === 'grandchild' ? {} : { answered_in: family[at].id };
      expect(taken).toMatchObject({
        session_id: grandchild.id,
        run_seq: 1,
        repeated: false,
        above: [child.id, parent.id],
      });
      expect(await grandchild.run(1)).toMatchObject({ state: 'running', given: { tool_call_id: 'call_x', ...here } });
      const logged = { tool_call_id: 'call_x', digest: expect.any(String) as string, ...above };
      expect((await outputs(grandchild)).map(({ data }) => data)).toEqual([logged]);
      for (const each of [parent, child, grandchild]) {
        expect(await give(each, here, below)).toMatchObject({ session_id: grandchild.id, repeated: true });
        expect(await give(each, { output: 'there' }, below)).toEqual(GIVEN);
        expect(await questions(each)).toBeNull();
      }
      for (const each of [parent, child]) expect(await outputs(each)).toEqual([]);
    }
  });

  it('H14 of another user, or of a session beside it, is refused', async () => {
    const [one, other] = [await waiting(), await waiting('call_y')];
    expect(await give(one.parent, here, { ...below, user: 'eve' })).toEqual({ code: 'SessionNotFound' });
    expect(await give(other.parent, here, below)).toEqual(NOT_WAITING);
    expect(await one.grandchild.run(1)).toMatchObject({ state: 'waiting' });
  });

  it('H14 P4 and an abort above at once deadlock nothing: the call is over', async () => {
    for (let n = 0; n < 10; n += 1) {
      const { parent, grandchild } = await waiting();
      const [abort] = await Promise.all([parent.abort(), give(parent, here, below), give(grandchild, here, below)]);
      expect(abort).toMatchObject({ ok: true });
      expect(await grandchild.run(1)).toMatchObject({ state: 'aborted' });
      expect(await give(parent, { output: 'there' }, below)).toMatchObject(NOT_WAITING);
    }
  });
});
