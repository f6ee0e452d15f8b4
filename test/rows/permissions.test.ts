// Rules in the rows, and answers to calls that ask: what store/sql/permissions.sql does, without a worker.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { changedSessions } from '../../store/changes.ts';
import { readFollowed } from '../../store/status.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { AFTER, answer, asking, asks, decided, give, STEP, TOOL } from './asking.ts';
import { parentAndChild } from './family.ts';
import { type Answer, call, freshRows, type Row, rows, Session, toolPart } from './session.ts';

let db: pg.Pool;
beforeAll(async () => {
  db = await freshRows();
});

const rulesOf = (session: Session) => call<Row[]>(db, 'rules_in_force', [session.id]);
const revoke = (session: Session, rule: string, user = session.user) =>
  call<string | null>(db, 'revoke_rule', [session.id, user, rule]);

async function callOf(session: Session, callId = 'call_1'): Promise<Row> {
  const part = (await session.parts()).find((each) => each['tool_call_id'] === callId)!;
  expect(part['tool_state'], 'the column is what the part says').toBe((part['data'] as Row)['state']);
  return part['data'] as Row;
}

/** As if the run had begun, and waited, for so much longer. */
const waitedFor = (session: Session, time: string) =>
  rows(
    db,
    `UPDATE chat_runs SET started_at = started_at - $2::interval, waiting = waiting || jsonb_build_object(
        'since', (waiting ->> 'since')::timestamptz - $2::interval) WHERE session_id = $1`,
    [session.id, time],
  );

/** A session with an imported answer, whose run ended so (null: it had none), and its denied calls, which say more. */
async function importing(run: string | null, ...calls: object[]): Promise<Session> {
  const session = await Session.at('chatting', db);
  const line = (kind: string, more: object) =>
    JSON.stringify({ kind, ...more, created_at: '2026-01-01', updated_at: '2026-01-01' });
  const denied = (more: object, index: number) => {
    const { data } = toolPart(`call_${index}`, index, 'output-denied');
    const columns = { id: newId('prt'), message_id: 'answer', index, type: 'tool', tool_call_id: `call_${index}` };
    return line('part', { ...columns, tool_state: 'output-denied', data: { ...data, ...more } });
  };
  await db.query('SELECT import_lines($1, $2)', [
    session.id,
    [
      line('message', { id: 'question', position: 0, role: 'user', metadata: {} }),
      line('message', { id: 'answer', position: 1, role: 'assistant', metadata: {}, run }),
      ...calls.map(denied),
    ],
  ]);
  return session;
}

async function kinds(session: Session): Promise<string[]> {
  return (await session.events()).map(({ kind }) => kind);
}

describe('begin_tool', () => {
  it('P3 of a call that asks: its run waits, nothing is pending, and asking again asks nothing', async () => {
    const { session, run } = await asking(db);
    expect(await session.run(run)).toMatchObject({
      ...{ state: 'waiting', check_at: null, head_start_at: null },
      waiting: { tool_call_id: 'call_1', for: 'approval' },
    });
    expect(await session.row()).toMatchObject({ pending_tool: null });
    expect(await callOf(session)).toMatchObject({ state: 'approval-requested', approval: { id: 'call_1' } });
    expect(await callOf(session)).not.toHaveProperty('callProviderMetadata');
    const before = await session.everything();
    for (const fence of [TOOL, AFTER, STEP]) {
      const again = await session.beginTool(run, fence, 'call_1', asks('call_1'));
      expect(again).toMatchObject({ kind: 'waiting', wait_ms: null });
    }
    expect(await session.everything()).toEqual(before);
    expect((await session.events()).at(-1)).toMatchObject({
      ...{ kind: 'approval_requested', actor: 'tool' },
      data: { tool_call_id: 'call_1', rule: 'manifest-0' },
    });
  });

  it('P3 of a call that is denied settles it, with the rule; the run goes on', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1', 'call_2'], STEP);
    expect(await session.beginTool(run, TOOL, 'call_1', decided('deny'))).toMatchObject({ kind: 'settled' });
    expect(await callOf(session)).toMatchObject({
      state: 'output-denied',
      approval: { isAutomatic: true, approved: false },
      callProviderMetadata: {
        perdure: { permission: { rule: 'manifest-0', decision: 'deny', decided_at: expect.any(String) as string } },
      },
    });
    const before = await session.everything();
    expect(await session.beginTool(run, AFTER, 'call_1', decided('allow'))).toMatchObject({ kind: 'settled' });
    expect(await session.everything()).toEqual(before);
    expect(await session.beginTool(run, AFTER, 'call_2', decided('allow'))).toMatchObject({ kind: 'begun' });
  });

  it('P3 of a call that has asked: it waits for its answer, whatever the rules say now', async () => {
    const { session, run } = await asking(db);
    await call(db, 'put_rule', [session.id, false, 'rul_new', 'pay', '*']);
    const rules = await rulesOf(session);
    for (const now of [decided('allow', rules), decided('deny', rules), decided('allow')]) {
      expect(await session.beginTool(run, AFTER, 'call_1', now)).toMatchObject({ kind: 'waiting' });
    }
    expect(await callOf(session)).toMatchObject({ state: 'approval-requested' });
  });

  it('P3 a rule that was made after the worker had read them sends it back', async () => {
    const { session, project } = await asking(db);
    const second = await Session.at('chatting', db, { project: project! });
    const run = await second.runWithCalls(['call_1'], STEP);
    await answer(session, 'always');
    const before = await second.everything();
    const rules = await rulesOf(second);
    for (const stale of [asks('call_1'), decided('deny'), decided('allow')]) {
      expect(await second.beginTool(run, TOOL, 'call_1', stale)).toEqual({ kind: 'rules', rules, above: [] });
    }
    expect(await second.everything()).toEqual(before);
    expect(await second.beginTool(run, TOOL, 'call_1', decided('allow', rules))).toMatchObject({ kind: 'begun' });
  });

  it('P3 of a call that was approved begins it, also if rules ask by now, and returns the part with the answer', async () => {
    const { session, run } = await asking(db);
    await answer(session, 'once');
    await call(db, 'put_rule', [session.id, false, 'rul_new', 'pay', '*']);
    const rules = await rulesOf(session);
    expect(await session.beginTool(run, AFTER, 'call_1', asks('call_1'))).toEqual({ kind: 'rules', rules, above: [] });
    const begun = await session.beginTool(run, AFTER, 'call_1', asks('call_1', { rules }));
    expect(begun).toMatchObject({ kind: 'begun', data: { state: 'approval-responded', approval: { approved: true } } });
    expect(await session.row()).toMatchObject({ pending_tool: { tool_call_id: 'call_1' } });
    // Another attempt: the first one may have run the tool.
    expect(await session.beginTool(run, [0, 3, 2], 'call_1', asks('call_1', { rules }))).toMatchObject({
      kind: 'again',
    });
    expect(await session.beginTool(run, [0, 3, 3], 'call_1', decided('deny', rules))).toMatchObject({ kind: 'again' });
  });

  it('P3 of a call that was approved, and that a rule denies by now, settles it as denied by that rule', async () => {
    const { session, run } = await asking(db);
    await answer(session, 'once');
    expect(await session.beginTool(run, AFTER, 'call_1', decided('deny'))).toMatchObject({ kind: 'settled' });
    const settled = await callOf(session);
    expect(settled).toMatchObject({
      state: 'output-denied',
      callProviderMetadata: { perdure: { permission: { rule: 'manifest-0', decision: 'deny', decided_by: 'rule' } } },
    });
    expect(settled['approval']).toEqual({
      ...{ id: 'call_1', isAutomatic: true, approved: false, reason: 'a rule of the manifest denies it' },
    });
    expect(await session.row()).toMatchObject({ pending_tool: null });
    expect(await answer(session, 'once')).toMatchObject({ ok: false, code: 'NotWaiting', decision: 'deny' });
    expect(await give(session, { output: 1 })).toEqual({ code: 'NotWaiting', decision: 'deny' });
  });

  it('P3 a lost attempt neither asks nor denies', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], TOOL);
    const before = await session.everything();
    for (const permission of [asks('call_1'), decided('deny')]) {
      expect(await session.beginTool(run, STEP, 'call_1', permission)).toEqual({ kind: 'lost' });
      expect(await session.beginTool(run, AFTER, 'call_none', permission)).toEqual({ kind: 'lost' });
    }
    expect(await session.everything()).toEqual(before);
  });
});

describe('answers', () => {
  it('P3 once: the call may run, its run goes on and is due at the sweeper, and the time that it waited is not its own', async () => {
    const { session, run } = await asking(db);
    await db.query(
      `UPDATE chat_runs SET waiting = waiting || jsonb_build_object('since', clock_timestamp() - interval '30 days')
        WHERE session_id = $1`,
      [session.id],
    );
    const before = (await session.run(run))['started_at'] as Date;
    const outcome = await answer(session, 'once');
    expect(outcome).toMatchObject({ ok: true, tool_call_id: 'call_1', decision: 'once', run_seq: run });
    expect(await callOf(session)).toMatchObject({
      state: 'approval-responded',
      approval: { approved: true },
      callProviderMetadata: {
        perdure: {
          permission: { rule: 'manifest-0', scope: 'manifest', decision: 'once', decided_by: 'ada' },
        },
      },
    });
    const row = await session.run(run);
    expect(row).toMatchObject({ state: 'running', waiting: null, started_at: before });
    expect(row['check_at']).not.toBeNull();
    expect(Number(row['waited_ms'])).toBeGreaterThanOrEqual(30 * 86_400_000);
    expect(await rulesOf(session)).toEqual([]);
  });

  it('R7 the time of a run that waits does not pass, before its answer either', async () => {
    const { session, run } = await asking(db);
    await waitedFor(session, '30 days');
    const elapsed = async () => (await call<Row>(db, 'load_tool_call', [session.id, run, 'call_1']))['elapsed_ms'];
    for (const _ of ['waiting', 'answered']) {
      expect(await elapsed()).toBeGreaterThanOrEqual(0);
      expect(await elapsed()).toBeLessThan(3_600_000);
      await answer(session, 'once');
    }
  });

  it('P3 reject, with a reason: the call is denied, and its run goes on', async () => {
    const { session, run } = await asking(db);
    const id = newId('cmd');
    await call(db, 'log_reason', [session.id, 'user', 'not today', `${id}/reason`]);
    expect(await answer(session, 'reject', 'call_1', id)).toMatchObject({ ok: true, decision: 'reject' });
    expect(await callOf(session)).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'not today' },
      callProviderMetadata: { perdure: { permission: { decision: 'reject', decided_by: 'ada' } } },
    });
    expect(await session.run(run)).toMatchObject({ state: 'running' });
    expect(await session.beginTool(run, AFTER, 'call_1', decided('allow'))).toMatchObject({ kind: 'settled' });
  });

  it('P3 session and always make a rule for exactly what was asked', async () => {
    const odd = 'a*b\\c';
    const { session, project } = await asking(db, { pattern: odd });
    await answer(session, 'session');
    const rule = { permission: 'pay', pattern: 'a\\*b\\\\c', action: 'allow' };
    expect(await rulesOf(session)).toEqual([{ ...rule, rule_id: 'rul_call_1', source: 'session' }]);
    const other = await Session.at('chatting', db, { project: project! });
    expect(await rulesOf(other)).toEqual([]);

    const always = await asking(db, { pattern: odd });
    await answer(always.session, 'always');
    const neighbour = await Session.at('chatting', db, { project: always.project! });
    for (const each of [always.session, neighbour]) {
      expect(await rulesOf(each)).toEqual([{ ...rule, rule_id: 'rul_call_1', source: 'project' }]);
    }
    expect(await rulesOf(await Session.at('chatting', db))).toEqual([]);
  });

  it('P3 a rule with the same pattern or id replaces the one before, as the newest; project rules come first', async () => {
    const { session, run } = await asking(db);
    await answer(session, 'session');
    const made = async (pattern: string, always: boolean, rule: string) =>
      call(db, 'put_rule', [session.id, always, rule, 'pay', pattern]);
    await made('6', false, 'rul_six');
    await made('5', false, 'rul_five');
    await made('7', true, 'rul_seven');
    await made('8', true, 'rul_eight');
    await made('7', true, 'rul_seven_again');
    // The calls of two sessions may have the same id.
    await made('9', true, 'rul_eight');
    expect((await rulesOf(session)).map(({ rule_id: id }) => id)).toEqual([
      ...['rul_seven_again', 'rul_eight', 'rul_six', 'rul_five'],
    ]);
    expect(await session.run(run)).toMatchObject({ state: 'running' });
  });

  it('P3 always, by two sessions of a project at once, makes one rule', async () => {
    const { session, project } = await asking(db);
    const other = await Session.at('chatting', db, { project: project! });
    const first = await db.connect();
    let isCommitted = false;
    try {
      await first.query('BEGIN');
      await first.query(`SELECT put_rule($1, true, 'rul_one', 'pay', '5')`, [session.id]);
      let isOver = false;
      const second = call(db, 'put_rule', [other.id, true, 'rul_two', 'pay', '5']).then(() => (isOver = true));
      await eventually(async () => {
        const waits = `SELECT FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%put_rule%'`;
        expect(isOver || (await rows(db, waits)).length > 0).toBe(true);
      });
      await first.query('COMMIT');
      isCommitted = true;
      await second;
    } finally {
      first.release(!isCommitted);
    }
    expect(await rulesOf(session)).toMatchObject([{ rule_id: 'rul_two', pattern: '5' }]);
    expect(await revoke(session, 'rul_two')).toBe('project');
    expect(await rulesOf(other)).toEqual([]);
  });

  it('H13 the same one again is answered as the first, under its own key or another, and changes nothing but the log', async () => {
    const { session } = await asking(db);
    const id = newId('cmd');
    const first = await answer(session, 'session', 'call_1', id);
    const [after, log] = [await session.everything(), await kinds(session)];
    expect(await answer(session, 'session', 'call_1', id)).toEqual(first);
    expect(await session.everything()).toEqual(after);
    const again = await answer(session, 'session');
    expect(again).toEqual({ ...first, event_seq: (first['event_seq'] as number) + 1 });
    expect(await kinds(session)).toEqual([...log, 'approval']);
    expect((await session.events()).at(-1)!.data).toMatchObject({ tool_call_id: 'call_1', repeated: true });
    expect(await rulesOf(session)).toHaveLength(1);
  });

  it('H13 another one is NotWaiting with what was decided, while the call runs and when it is over', async () => {
    const { session, run } = await asking(db);
    await answer(session, 'once');
    const other = () => answer(session, 'reject');
    expect(await other()).toMatchObject({ ok: false, code: 'NotWaiting', decision: 'once' });
    await session.beginTool(run, AFTER, 'call_1', decided('allow'));
    expect(await other()).toMatchObject({ ok: false, code: 'NotWaiting', decision: 'once' });
    const { data } = (await session.parts()).find((part) => part['tool_call_id'] === 'call_1')!;
    await session.finishTool(run, AFTER, 'call_1', { data: { ...(data as object), state: 'output-available' } });
    expect(await other()).toMatchObject({ ok: false, code: 'NotWaiting', decision: 'once' });
    expect(await callOf(session)).toMatchObject({ state: 'output-available', approval: { approved: true } });
  });

  it('H13 to what does not ask are NotWaiting, and leave everything as it is', async () => {
    const { session, run } = await asking(db);
    const other = await Session.at('chatting', db);
    const running = await other.runWithCalls(['call_2'], STEP);
    const parts = async () => [await session.parts(), await session.run(run), await other.run(running)];
    const before = await parts();
    const refused: Answer[] = [
      await answer(session, 'once', 'call_none'),
      await answer(session, 'once', 'call_2'),
      await answer(other, 'once', 'call_1'),
      await answer(other, 'once', 'call_2'),
    ];
    for (const outcome of refused) expect(outcome).toMatchObject({ ok: false, code: 'NotWaiting' });
    expect(await parts()).toEqual(before);
  });

  it('H13 of a page’s call no answer is taken', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], STEP);
    await session.beginTool(run, TOOL, 'call_1', { page_ms: 1_000 });
    expect(await answer(session, 'once')).toMatchObject({ ok: false, code: 'NotWaiting' });
    expect(await session.run(run)).toMatchObject({ state: 'waiting' });
  });

  it('H13 “always” without a project, and what a pinned rule does not offer, are refused by name: the call goes on waiting', async () => {
    const { session, run } = await asking(db, { project: null });
    expect(await answer(session, 'always')).toMatchObject({ ok: false, code: 'ProjectRequired' });
    expect(await session.run(run)).toMatchObject({ state: 'waiting' });
    const pinned = await asking(db, { decisions: ['once', 'reject'] });
    for (const decision of ['session', 'always']) {
      expect(await answer(pinned.session, decision)).toMatchObject({
        ...{ ok: false, code: 'NotOffered' },
        offered: ['once', 'reject'],
      });
    }
    expect(await pinned.session.run(pinned.run)).toMatchObject({ state: 'waiting' });
    expect(await rulesOf(pinned.session)).toEqual([]);
    expect(await answer(session, 'once')).toMatchObject({ ok: true });
  });

  it.each(['abort', 'close', 'rewind', 'edit'] as const)('H13 after a %s of their run are NotWaiting', async (how) => {
    const { session, run } = await asking(db);
    const message = (await session.run(run))['message_id'] as string;
    expect(await session.close()).toMatchObject({ ok: false, code: 'RunInFlight' });
    if (how === 'abort') await session.abort();
    if (how === 'close') expect(await session.close(true)).toMatchObject({ ok: true, aborted: true });
    if (how === 'rewind') {
      expect(await session.rewind(message)).toMatchObject({ ok: false, code: 'RunInFlight' });
      await session.rewind(message, { abort: true });
    }
    if (how === 'edit') await session.edit(message, 'something else');
    const reason = how === 'rewind' || how === 'edit' ? 'no longer needed' : 'aborted by the user';
    const before = how === 'abort' || how === 'close' ? 'its turn was aborted' : reason;
    for (const decision of ['once', 'reject']) {
      expect(await answer(session, decision)).toMatchObject({ ok: false, code: 'NotWaiting', cause: before });
    }
    await call(db, 'settle_run', [session.id, run, null, 'aborted', null, null, null, null]);
    expect(await callOf(session)).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason },
    });
    expect(await answer(session, 'once')).toMatchObject({ ok: false, code: 'NotWaiting', cause: reason });
    expect(await session.run(run)).toMatchObject({ state: 'aborted', waiting: null });
  });

  it.each([
    ['finished', {}],
    ['aborted', { cause: 'its turn was aborted' }],
  ])('W3 H13 to a call of an imported run that is %s say nothing that its part says', async (state, cause) => {
    const approval = { approved: false, reason: 'canary' };
    const permission = { decision: 'canary', decided_by: 'rule' };
    const session = await importing(
      state,
      { approval },
      { approval, callProviderMetadata: { perdure: { permission } } },
    );
    for (const callId of ['call_0', 'call_1']) {
      const { event_seq, ...refused } = await answer(session, 'once', callId);
      expect(event_seq).toEqual(expect.any(Number));
      expect(refused).toEqual({ ok: false, code: 'NotWaiting', phase: 'chatting', project_id: null, ...cause });
      expect(await give(session, { output: 1 }, { callId })).toEqual({ code: 'NotWaiting', ...cause });
    }
  });

  it('H13 to a call that was imported without its run are NotWaiting, also the one that its part says', async () => {
    const permission = { decision: 'reject', decided_by: 'ada' };
    const session = await importing(null, { callProviderMetadata: { perdure: { permission } } });
    for (const decision of ['once', 'reject']) {
      const refused = { ok: false, code: 'NotWaiting', decision: 'reject' };
      expect(await answer(session, decision, 'call_0')).toMatchObject(refused);
    }
  });

  it('H13 twelve at once, of four kinds: one counts, those like it are repeats, the others are told of it', async () => {
    for (let race = 0; race < 5; race += 1) {
      const { session, run } = await asking(db);
      const decisions = ['once', 'reject', 'session', 'always'];
      const sent = Array.from({ length: 12 }, (_, n) => decisions[n % decisions.length]!);
      const outcomes = await Promise.all(sent.map((decision) => answer(session, decision)));
      const won = new Set(outcomes.filter(({ ok }) => ok).map(({ decision }) => decision));
      expect(won.size).toBe(1);
      const [decision] = [...won];
      for (const [n, outcome] of outcomes.entries()) {
        const wanted = sent[n] === decision ? { ok: true } : { ok: false, code: 'NotWaiting', decision };
        expect(outcome).toMatchObject(wanted);
      }
      const made = (await session.events()).filter(({ kind, data }) => kind === 'approval' && !data['repeated']);
      expect(made).toHaveLength(1);
      const state = decision === 'reject' ? 'output-denied' : 'approval-responded';
      expect(await callOf(session)).toMatchObject({
        state,
        callProviderMetadata: { perdure: { permission: { decision } } },
      });
      expect(await rulesOf(session)).toHaveLength(decision === 'session' || decision === 'always' ? 1 : 0);
      expect(await session.run(run)).toMatchObject({ state: 'running' });
    }
  });

  it('W7 the sweeper leaves a run that waits alone; answered, it is due within 2 s', async () => {
    const own = await freshRows();
    const { session, run } = await asking(own);
    await own.query('UPDATE chat_runs SET check_at = NULL WHERE session_id = $1', [session.id]);
    const due = () => rows(own, 'SELECT * FROM claim_due_runs(10)');
    expect(await due()).toEqual([]);
    await answer(session, 'once');
    const [{ s }] = (await rows(
      own,
      'SELECT extract(epoch FROM check_at - clock_timestamp()) AS s FROM chat_runs WHERE session_id = $1',
      [session.id],
    )) as [{ s: string }];
    expect(Number(s)).toBeLessThanOrEqual(2);
    await own.query(`UPDATE chat_runs SET check_at = now() - interval '1 second' WHERE session_id = $1`, [session.id]);
    expect(await due()).toMatchObject([{ session_id: session.id, run_seq: run }]);
  });
});

describe('rules', () => {
  it('H13 are taken back by the owner of the session, once, and nobody else', async () => {
    const { session } = await asking(db);
    await answer(session, 'session');
    await call(db, 'put_rule', [session.id, true, 'rul_project', 'pay', '7']);
    const stranger = await Session.at('chatting', db, { user: 'eve' });
    const before = await session.everything();
    const rules = await rulesOf(session);
    for (const rule of ['rul_call_1', 'rul_project']) {
      expect(await revoke(session, rule, 'eve')).toBeNull();
      expect(await revoke(stranger, rule)).toBeNull();
    }
    expect(await revoke(session, 'rul_none')).toBeNull();
    expect(await rulesOf(session)).toEqual(rules);
    expect(await session.everything()).toEqual(before);
    expect(await revoke(session, 'rul_call_1')).toBe('session');
    expect(await revoke(session, 'rul_call_1')).toBeNull();
    expect(await revoke(session, 'rul_project')).toBe('project');
    expect(await revoke(session, 'rul_project')).toBeNull();
    expect(await rulesOf(session)).toEqual([]);
    const revoked = (await session.events()).filter(({ kind }) => kind === 'rule_revoked');
    expect(revoked.map(({ data }) => data)).toEqual([
      { rule_id: 'rul_call_1', scope: 'session' },
      { rule_id: 'rul_project', scope: 'project' },
    ]);
  });

  it('H13 taken back by ten at once are taken back once', async () => {
    const { session } = await asking(db);
    await answer(session, 'always');
    const scopes = await Promise.all(Array.from({ length: 10 }, () => revoke(session, 'rul_call_1')));
    expect(scopes.filter((scope) => scope !== null)).toEqual(['project']);
    expect((await kinds(session)).filter((kind) => kind === 'rule_revoked')).toHaveLength(1);
  });

  it('P3 of a session go neither to its branches nor to other sessions; an unknown session has none', async () => {
    const { session, run } = await asking(db);
    await answer(session, 'session');
    await session.beginTool(run, AFTER, 'call_1', decided('allow'));
    await session.finishTool(run, AFTER, 'call_1');
    await session.settleRun(run, 'error');
    const message = (await session.run(run))['message_id'];
    const branched = await session.apply('branch', { from_message_id: message });
    expect(branched).toMatchObject({ ok: true });
    expect(await rulesOf(new Session(db, branched['session_id'] as string))).toEqual([]);
    expect(await rulesOf(new Session(db))).toBeNull();
  });
});

describe('followers', () => {
  /** Whether a poll finds a change of a session, and readers see other rules, after some work. */
  async function notices(session: Session, work: () => Promise<unknown>): Promise<{ poll: boolean; readers: boolean }> {
    const read = async () => {
      const [now] = await changedSessions(db, [[session.id, undefined]]);
      const [followed] = await readFollowed(db, [{ userId: session.user, sessionId: session.id, fromSeq: 0 }]);
      return { version: now!.version, mark: followed!()!.rules_mark };
    };
    const before = await read();
    expect(await changedSessions(db, [[session.id, before.version]])).toEqual([]);
    await work();
    const changed = await changedSessions(db, [[session.id, before.version]]);
    return { poll: changed.length > 0, readers: (await read()).mark !== before.mark };
  }
  const put = (session: Session, always: boolean, rule: string, pattern = '5') =>
    call(db, 'put_rule', [session.id, always, rule, 'pay', pattern]);
  const [seen, unseen] = [
    { poll: true, readers: true },
    { poll: false, readers: false },
  ];

  it('H13 notice without a pointer that a session of their project has made, replaced or revoked a rule; others do not', async () => {
    const project = newId('prj');
    const session = await Session.at('chatting', db, { project });
    const other = await Session.at('chatting', db, { project });
    const stranger = await Session.at('chatting', db, { project: newId('prj') });
    expect(await notices(other, () => put(session, true, 'rul_one'))).toEqual(seen);
    expect(await notices(other, () => put(session, true, 'rul_two'))).toEqual(seen);
    expect(await notices(stranger, () => put(session, true, 'rul_three', '6'))).toEqual(unseen);
    expect(await notices(other, () => revoke(session, 'rul_two'))).toEqual(seen);
    expect(await notices(other, () => revoke(session, 'rul_three'))).toEqual(seen);
    expect(await notices(other, () => put(session, false, 'rul_own'))).toEqual(unseen);
    expect(await notices(session, () => put(session, false, 'rul_own', '6'))).toEqual(seen);
  });

  it('H13 H14 of a child notice the rules of the session above, too', async () => {
    const { parent, child } = await parentAndChild(db);
    expect(await notices(child, () => put(parent, false, 'rul_one'))).toEqual(seen);
    expect(await notices(child, () => revoke(parent, 'rul_one'))).toEqual(seen);
    expect(await notices(parent, () => put(child, false, 'rul_two'))).toMatchObject({ readers: false });
  });
});

describe('answered_calls', () => {
  it('H8 tells the user of a session of which step each call of an answer is, and what it waits for; nobody else', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1', 'call_2'], STEP);
    const id = (await session.run(run))['answer_id'];
    const read = (user = 'ada', answerId = id) => call<Row | null>(db, 'answered_calls', [session.id, user, answerId]);
    await rows(db, `UPDATE chat_parts SET index = 2 WHERE session_id = $1 AND tool_call_id = 'call_2'`, [session.id]);
    const begins = { id: newId('prt'), index: 1, type: 'step-start', data: { type: 'step-start' } };
    await call(db, 'put_parts', [session.id, id, JSON.stringify([begins])]);
    const of = (callId: string, state: string, waits: string | null = null, approved: boolean | null = null) => ({
      ...{ tool_call_id: callId, tool_state: state, step: callId === 'call_1' ? 0 : 1, waits_for: waits, approved },
    });
    const open = of('call_2', toolPart('call_2', 1).data['state'] as string);
    await session.beginTool(run, TOOL, 'call_1', asks('call_1'));
    expect(await read()).toEqual({
      ...{ run_seq: run, is_open: true, is_aborted: false },
      calls: [of('call_1', 'approval-requested', 'approval'), open],
    });
    await answer(session, 'once');
    expect(await read()).toMatchObject({ calls: [of('call_1', 'approval-responded', null, true), open] });
    expect(await read('eve')).toBeNull();
    expect(await read('ada', 'msg_none')).toBeNull();
    await session.settleRun(run, 'aborted');
    expect(await read()).toMatchObject({ is_open: false, is_aborted: true });
  });
});
