// Tool calls that ask, with a worker and Temporal.
import { setTimeout } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { askingAgent, askingModel, ran } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { statusQuery, updates } from '../../workflows/definitions.ts';
import { aroundCalls } from '../faults/sql-calls.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [askingAgent], script: askingModel, settings: { continueAsNewEvents: 60 } });
});
beforeEach(() => void ran.splice(0));

type Part = Record<string, unknown> & { type: string; toolCallId?: string; state?: string };

const open = () => TestSession.open(runtime, { agent: askingAgent.id });

/** Waits until a session's run waits, and its workflow knows. */
async function waiting(session: TestSession, run: number): Promise<Part> {
  const { answer_id: answer } = await session.run(run);
  const asked = await eventually(async () => {
    const parts: Part[] = await session.parts(answer);
    const found = parts.find(({ state }) => state === 'approval-requested');
    if (found === undefined || (await session.run(run)).state !== 'waiting') throw new Error('it does not wait yet');
    return found;
  });
  await eventually(async () => {
    expect(await session.handle.query(statusQuery)).toMatchObject({ state: 'waiting' });
  });
  return asked;
}

async function asks(session: TestSession, text = 'pay 5'): Promise<{ run: number; call: string }> {
  const run = await session.send(text);
  return { run, call: String((await waiting(session, run)).toolCallId) };
}

async function callsOf(session: TestSession, run: number): Promise<Part[]> {
  const { answer_id: answer } = await session.run(run);
  return (await session.parts(answer)).filter(({ type }) => type.startsWith('tool-'));
}

async function lastText(session: TestSession, run: number): Promise<string> {
  const { answer_id: answer } = await session.run(run);
  return String((await session.parts(answer)).at(-1)?.['text']);
}

const answer = (session: TestSession, call: string, decision: 'once' | 'session' | 'always' | 'reject') =>
  session.command(updates.answer, { tool_call_id: call, decision });

const searchAttribute = async (session: TestSession) =>
  (await session.handle.describe()).typedSearchAttributes.getAll().find(({ key }) => key.name === 'PerdureStatus')
    ?.value;

/** As if the turn had begun a month ago, and had waited since then. */
const waitedForAMonth = (session: TestSession) =>
  runtime.db.query(
    `UPDATE chat_runs SET started_at = started_at - interval '30 days',
            waiting = waiting || jsonb_build_object('since', (waiting ->> 'since')::timestamptz - interval '30 days')
      WHERE session_id = $1`,
    [session.id],
  );

/** How many activities have ended, local ones not counted. */
async function activitiesDone(session: TestSession): Promise<number> {
  const { events } = await session.handle.fetchHistory();
  return events!.filter((event) => event.activityTaskCompletedEventAttributes).length;
}

describe('a tool call', () => {
  it('P3 that no rule matches runs, and its part has no decision', async () => {
    const session = await open();
    const run = await session.send('look');
    await session.ended(run);
    const [call] = await callsOf(session, run);
    expect(call).toMatchObject({ state: 'output-available' });
    expect(call).not.toHaveProperty('callProviderMetadata.perdure.permission');
  });

  it('P3 a rule of the manifest denies: the tool does not run, and the model is told', async () => {
    const session = await open();
    const run = await session.send('pay 13, look');
    await session.ended(run);
    const [denied, looked] = await callsOf(session, run);
    expect(denied).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, isAutomatic: true, reason: 'a rule of the manifest denies it' },
      callProviderMetadata: {
        perdure: { permission: { rule: 'manifest-1', decision: 'deny', scope: 'manifest', decided_by: 'rule' } },
      },
    });
    expect(looked).toMatchObject({ state: 'output-available' });
    expect(await lastText(session, run)).toContain('this call is not allowed: a rule of the manifest denies it');
    expect(ran).toEqual([]);
  });

  it('R5 that asks: run, status, query and search attribute wait, with no activity and no timer', async () => {
    const session = await open();
    const { run } = await asks(session);
    expect(await session.row()).toMatchObject({ pending_tool: null });
    expect(await session.run(run)).toMatchObject({ state: 'waiting', check_at: null });
    await eventually(async () => expect(await searchAttribute(session)).toBe('waiting'));
    const { raw } = await session.handle.describe();
    expect(raw.pendingActivities ?? []).toEqual([]);
    const { events } = await session.handle.fetchHistory();
    const count = (kind: 'timerStartedEventAttributes' | 'timerCanceledEventAttributes') =>
      events!.filter((event) => event[kind]).length;
    expect(count('timerStartedEventAttributes')).toBe(count('timerCanceledEventAttributes'));
    expect(ran).toEqual([]);
  });

  it('P3 that is allowed once runs once, and the next one asks again', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    expect(await answer(session, call, 'once')).toMatchObject({ tool_call_id: call, decision: 'once', run_seq: run });
    await session.ended(run);
    expect(ran).toEqual([`${session.id} pay 5`]);
    const [part] = await callsOf(session, run);
    expect(part).toMatchObject({
      state: 'output-available',
      approval: { approved: true },
      callProviderMetadata: {
        perdure: { permission: { rule: 'manifest-0', decision: 'once', scope: 'manifest', decided_by: 'ada' } },
      },
    });
    await eventually(async () => expect(await searchAttribute(session)).toBe('open'));
    await asks(session);
  });

  it('P3 that is allowed for the session is not asked for again, here only', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    await answer(session, call, 'session');
    await session.ended(run);
    const again = await session.send('pay 5');
    await session.ended(again);
    expect(ran).toEqual([`${session.id} pay 5`, `${session.id} pay 5`]);
    expect((await callsOf(session, again))[0]).toMatchObject({
      callProviderMetadata: { perdure: { permission: { rule: `rul_${call}`, decision: 'allow', scope: 'session' } } },
    });
    await asks(session, 'pay 6');
    await asks(await open());
  });

  it('P3 that is allowed always is not asked for in the project’s other sessions; without a project that is refused', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    await expect(answer(session, call, 'always')).rejects.toMatchObject({ cause: { type: 'ProjectRequired' } });
    const project = newId('prj');
    await session.command(updates.openExisting, { project_id: project });
    await answer(session, call, 'always');
    await session.ended(run);
    const other = await open();
    await other.command(updates.openExisting, { project_id: project });
    await other.ended(await other.send('pay 5'));
    expect(ran).toEqual([`${session.id} pay 5`, `${other.id} pay 5`]);
  });

  it('P3 that a pinned rule asks for offers once and reject only', async () => {
    const session = await open();
    const { run, call } = await asks(session, 'pay 99');
    expect(await waiting(session, run)).toMatchObject({ approval: { descriptor: { decisions: ['once', 'reject'] } } });
    await expect(answer(session, call, 'session')).rejects.toMatchObject({ cause: { type: 'NotOffered' } });
    await answer(session, call, 'once');
    await session.ended(run);
    expect(ran).toEqual([`${session.id} pay 99`]);
  });

  it('P3 is decided by rules with fields of a newer build, too, which pin nothing', async () => {
    const session = await open();
    const any = { rule_id: 'rul_new', permission: 'pay', pattern: '*', action: 'allow', source: 'session' };
    await runtime.db.query('UPDATE chat_sessions SET permissions = $2 WHERE session_id = $1', [
      session.id,
      JSON.stringify([{ ...any, note: [1], pinned: true }]),
    ]);
    const run = await session.send('pay 5, pay 13');
    expect((await session.ended(run)).state).toBe('finished');
    const decisions = (await callsOf(session, run)).map(({ callProviderMetadata: metadata }) => metadata);
    expect(decisions).toMatchObject([
      { perdure: { permission: { rule: 'rul_new', decision: 'allow', scope: 'session' } } },
      { perdure: { permission: { rule: 'manifest-1', decision: 'deny', scope: 'manifest' } } },
    ]);
    expect(ran).toEqual([`${session.id} pay 5`]);
  });

  it('P3 is decided without another round trip, unless its rules have just changed', async () => {
    const session = await open();
    const calls: string[] = [];
    let rules = 0;
    using _hook = aroundCalls(runtime.db, {
      before: async ({ name, args }) => {
        if (args[0] !== session.id) return;
        calls.push(name);
        if (name === 'begin_tool' && rules === 1) {
          rules = 2;
          await runtime.db.query(`SELECT put_rule($1, false, 'rul_new', 'look', '*')`, [session.id]);
        }
      },
    });
    await session.ended(await session.send('look, pay 13'));
    /** From the step that made the tool calls to the one that follows them. */
    const between = () => {
      const all = calls.splice(0);
      return all.slice(all.indexOf('settle_step') + 1, all.lastIndexOf('claim_step'));
    };
    const once = ['load_tool_call', 'begin_tool', 'finish_tool'];
    expect(between()).toEqual([...once, 'load_tool_call', 'begin_tool']);
    rules = 1;
    const run = await session.send('look');
    await session.ended(run);
    expect(between()).toEqual(['load_tool_call', 'begin_tool', 'begin_tool', 'finish_tool']);
    expect((await callsOf(session, run))[0]).toMatchObject({
      callProviderMetadata: { perdure: { permission: { rule: 'rul_new' } } },
    });
  });

  it('P3 whose rules change each time is decided ten times by an attempt, and then by the next one', async () => {
    const session = await open();
    const calls: string[] = [];
    using _hook = aroundCalls(runtime.db, {
      before: async ({ name, args }) => {
        if (args[0] !== session.id || !['load_tool_call', 'begin_tool'].includes(name)) return;
        const begun = calls.filter((each) => each === 'begin_tool').length;
        calls.push(name);
        if (name !== 'begin_tool' || begun === 10) return;
        await runtime.db.query(`SELECT put_rule($1, false, $2, 'look', '*')`, [session.id, `rul_${begun}`]);
      },
    });
    const run = await session.send('look');
    expect((await session.ended(run)).state).toBe('finished');
    const tenTimes = Array.from({ length: 10 }, () => 'begin_tool');
    expect(calls).toEqual(['load_tool_call', ...tenTimes, 'load_tool_call', 'begin_tool']);
    expect((await callsOf(session, run))[0]).toMatchObject({
      callProviderMetadata: { perdure: { permission: { rule: 'rul_9' } } },
    });
  });

  it('P3 that is rejected does not run, and the turn goes on', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    await answer(session, call, 'reject');
    expect((await session.ended(run)).state).toBe('finished');
    expect((await callsOf(session, run))[0]).toMatchObject({ state: 'output-denied', approval: { approved: false } });
    expect(await lastText(session, run)).toContain('the user did not allow this call');
    expect(ran).toEqual([]);
  });

  it('H13 calls of one step ask one after the other', async () => {
    const session = await open();
    const { run, call } = await asks(session, 'pay 1, pay 2');
    expect((await callsOf(session, run)).map(({ state }) => state)).toEqual(['approval-requested', 'input-available']);
    await answer(session, call, 'once');
    const second = await eventually(async () => {
      const asked = await waiting(session, run);
      if (asked.toolCallId === call) throw new Error('the first one still waits');
      return String(asked.toolCallId);
    });
    await answer(session, second, 'once');
    await session.ended(run);
    expect(ran).toEqual([`${session.id} pay 1`, `${session.id} pay 2`]);
  });
});

describe('answers', () => {
  it('H13 two different ones at once: one counts, the other is told what was decided; the same again is a repeat', async () => {
    for (let race = 0; race < 5; race += 1) {
      const session = await open();
      const { run, call } = await asks(session);
      const outcomes = await Promise.allSettled([answer(session, call, 'once'), answer(session, call, 'reject')]);
      const won = outcomes.findIndex(({ status }) => status === 'fulfilled');
      const lost = outcomes[1 - won] as PromiseRejectedResult;
      const decision = won === 0 ? 'once' : 'reject';
      expect(lost.reason).toMatchObject({ cause: { type: 'NotWaiting', details: [{ decision }] } });
      expect(await answer(session, call, decision)).toMatchObject({ decision });
      await session.ended(run);
      expect(ran.filter((each) => each.startsWith(session.id))).toHaveLength(1 - won);
    }
  });

  it('H13 to a call that is unknown or does not ask are NotWaiting', async () => {
    const session = await open();
    await expect(answer(session, newId('call'), 'once')).rejects.toMatchObject({ cause: { type: 'NotWaiting' } });
    const run = await session.send('look');
    await session.ended(run);
    const [call] = await callsOf(session, run);
    await expect(answer(session, String(call!.toolCallId), 'once')).rejects.toMatchObject({
      cause: { type: 'NotWaiting' },
    });
  });

  it('W2 an unknown decision is refused by name', async () => {
    const session = await open();
    const { call } = await asks(session);
    await expect(answer(session, call, 'perhaps' as never)).rejects.toMatchObject({
      cause: { type: 'BadRequest', message: 'decision: expected "once" or "session" or "always" or "reject"' },
    });
  });
});

describe('a run that waits', () => {
  it('W7 lets messages queue behind it', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    const next = await session.send('look');
    expect(await session.run(next)).toMatchObject({ state: 'queued' });
    await answer(session, call, 'once');
    await session.ended(run);
    expect((await session.ended(next)).state).toBe('finished');
  });

  it('H13 that is aborted ends its call as denied: "aborted by the user"', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    expect(await session.command(updates.abort)).toMatchObject({ aborted: true });
    expect((await session.ended(run)).state).toBe('aborted');
    expect((await callsOf(session, run))[0]).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'aborted by the user' },
    });
    await expect(answer(session, call, 'once')).rejects.toMatchObject({
      cause: { type: 'NotWaiting', details: [{ cause: 'aborted by the user' }] },
    });
    expect(ran).toEqual([]);
  });

  it('X1 whose message is gone back to ends its call as no longer needed', async () => {
    const session = await open();
    const { run } = await asks(session);
    const { message_id: message } = await session.run(run);
    await expect(session.command(updates.rewind, { message_id: message })).rejects.toMatchObject({
      cause: { type: 'RunInFlight' },
    });
    await session.command(updates.rewind, { message_id: message, abort: true });
    expect((await session.ended(run)).state).toBe('aborted');
    expect((await callsOf(session, run))[0]).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'no longer needed' },
    });
    await session.ended(await session.send('look'));
  });

  it('X1 whose message is edited ends its call as no longer needed, and the edited one is answered', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    const { message_id: message } = await session.run(run);
    const edited = await session.edit(message, 'look');
    expect((await session.ended(run)).state).toBe('aborted');
    expect((await callsOf(session, run))[0]).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'no longer needed' },
    });
    expect((await session.ended(edited)).state).toBe('finished');
    await expect(answer(session, call, 'once')).rejects.toMatchObject({ cause: { type: 'NotWaiting' } });
    expect(ran).toEqual([]);
  });

  it('W8 keeps the session open, unless it is closed with `abort`', async () => {
    const session = await open();
    const { run } = await asks(session);
    await expect(session.command(updates.close)).rejects.toMatchObject({ cause: { type: 'RunInFlight' } });
    await session.command(updates.close, { abort: true });
    expect((await session.ended(run)).state).toBe('aborted');
    await session.handle.result();
  });

  it('W8 survives the end of its workflow: the answer starts it again', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    await session.handle.terminate();
    await answer(session, call, 'once');
    expect((await session.ended(run)).state).toBe('finished');
    expect(ran).toEqual([`${session.id} pay 5`]);
  });

  it('W8 answered just as its workflow ends, it goes on', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    const { rows } = await runtime.db.query<{ r: { ok: boolean } }>('SELECT apply_command($1, $2, $3, $4, $5) AS r', [
      ...[session.id, 'answer', JSON.stringify({ tool_call_id: call, decision: 'once' }), 'user', newId('cmd')],
    ]);
    expect(rows[0]!.r.ok).toBe(true);
    await session.handle.terminate();
    expect((await session.ended(run)).state).toBe('finished');
    expect(ran).toEqual([`${session.id} pay 5`]);
  });

  it('P3 whose agent denies by now what it asked for: the approved call does not run', async () => {
    const own = await startRuntime({ agents: [askingAgent], script: askingModel });
    const session = await TestSession.open(own, { agent: askingAgent.id });
    const { run, call } = await asks(session, 'pay 5');
    await own.first.stop();
    const denies = { permission: 'pay', pattern: '5', action: 'deny', pinned: true } as const;
    await own.startWorker({ agents: [{ ...askingAgent, permissions: [denies] }] });
    await answer(session, call, 'once');
    expect((await session.ended(run)).state).toBe('finished');
    expect((await callsOf(session, run))[0]).toMatchObject({
      state: 'output-denied',
      approval: { isAutomatic: true, approved: false, reason: 'a rule of the manifest denies it' },
      callProviderMetadata: { perdure: { permission: { rule: 'manifest-0', decision: 'deny', decided_by: 'rule' } } },
    });
    expect(ran).toEqual([]);
  });

  it('W4 continues as new, and goes on waiting', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    const { runId: first } = await session.handle.describe();
    await eventually(async () => {
      await answer(session, newId('call'), 'once').catch(() => {});
      expect((await session.handle.describe()).runId).not.toBe(first);
    });
    await waiting(session, run);
    await eventually(async () => expect(await searchAttribute(session)).toBe('waiting'));
    await answer(session, call, 'once');
    expect((await session.ended(run)).state).toBe('finished');
    expect(ran).toEqual([`${session.id} pay 5`]);
  });

  it('R7 does not spend the turn’s time', async () => {
    const session = await open();
    const { run, call } = await asks(session);
    await waitedForAMonth(session);
    await answer(session, call, 'once');
    expect((await session.ended(run)).state).toBe('finished');
    expect(ran).toEqual([`${session.id} pay 5`]);
  });

  it('R7 R5 looked at after a month, it goes on waiting, with no activity', async () => {
    const session = await open();
    const { run, call } = await asks(session, 'pay 1, pay 2');
    await answer(session, call, 'once');
    const second = await eventually(async () => {
      const asked = await waiting(session, run);
      if (asked.toolCallId === call) throw new Error('the first one still waits');
      return String(asked.toolCallId);
    });
    await waitedForAMonth(session);
    const looks = await activitiesDone(session);
    // After a timer that is due at once, which was set before the call.
    using _slow = aroundCalls(runtime.db, {
      before: ({ name }) => (name === 'begin_tool' ? setTimeout(0) : undefined),
    });
    // A repeat makes the workflow look at the call that waits now.
    await answer(session, call, 'once');
    await eventually(async () => expect(await activitiesDone(session)).toBe(looks + 1));
    expect((await session.handle.describe()).raw.pendingActivities ?? []).toEqual([]);
    await waiting(session, run);
    await answer(session, second, 'once');
    expect((await session.ended(run)).state).toBe('finished');
    expect(ran).toEqual([`${session.id} pay 1`, `${session.id} pay 2`]);
  });
});
