// What the workflows of initiatives ask of the rows: who holds tasks for how long, and who was first.
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import {
  applyForWorkflow,
  claimChangedInitiatives,
  claimStaleInitiatives,
  endInitiativeChecks,
  readInitiativeMark,
  resetStale,
} from '../../store/initiative-workflows.ts';
import { joinInitiative } from '../../store/initiatives.ts';
import { noteStuck } from '../../store/stuck.ts';
import { age as ageInitiative } from '../../tools/test-kit/initiative.ts';
import { parentAndChild } from './family.ts';
import { Initiative } from './initiative.ts';
import { call, freshRows, rows, Session } from './session.ts';

const db = await freshRows({ max: 20 });
// Some wait for others on purpose, on a busy machine for longer.
await db.query('ALTER FUNCTION reset_stale SET lock_timeout = 0');
const HOUR = { staleAssignmentMs: 3_600_000, staleProgressMs: 3_600_000 };

const age = (work: Initiative, by: string) => ageInitiative(db, work.id, by);

/** Who has done what, in order. */
async function logged({ id }: Initiative): Promise<string[]> {
  const sql = `SELECT actor || ' ' || kind AS event FROM initiative_events WHERE initiative_id = $1 ORDER BY seq`;
  return (await rows(db, sql, [id])).map(({ event }) => String(event));
}

it('I6 a work session is due when its assignment and its last sign of life are old enough', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const mark = async (staleness = HOUR) => (await readInitiativeMark(db, work.id, staleness))!;
  expect((await mark()).watched).toBeNull();
  const worker = await work.session();
  await work.next(worker);
  const assigned = (await mark()).watched!;
  expect(assigned).toMatchObject({ work_session: worker });
  expect(assigned.due_in_ms).toBeGreaterThan(3_500_000);
  await age(work, '50 minutes');
  await work.apply('report_progress', { task: 'one', work_session: worker });
  const reported = (await mark()).watched!;
  expect(reported.due_in_ms).toBeGreaterThan(3_500_000);
  expect(reported.sign).not.toBe(assigned.sign);
  // A sign of life on one task is one of the work session.
  await work.next(worker);
  await age(work, '2 hours');
  expect((await mark()).watched?.due_in_ms).toBe(0);
  await work.apply('start_task', { task: 'two', work_session: worker });
  expect((await mark()).watched?.due_in_ms).toBeGreaterThan(3_500_000);
  // The assignment has a time of its own.
  expect((await mark({ ...HOUR, staleProgressMs: 0 })).watched?.due_in_ms).toBe(0);
  // Of two that it holds the one that it has had for longer counts.
  const late = (await mark({ ...HOUR, staleAssignmentMs: 6 * 3_600_000 })).watched!.due_in_ms;
  expect(late).toBeGreaterThan(3 * 3_600_000);
  expect(late).toBeLessThan(3.5 * 3_600_000);
});

it.each(['assign_task', 'start_task', 'report_progress', 'complete_task'])(
  'I6 a sign of life of a work session is %s',
  async (command) => {
    const work = await Initiative.of([[['one', 'two', 'three']]], db);
    const work_session = await work.session();
    await work.next(work_session);
    await work.next(work_session);
    await work.apply('start_task', { task: 'one', work_session });
    await age(work, '2 hours');
    const due = async () => (await readInitiativeMark(db, work.id, HOUR))!.watched!.due_in_ms;
    expect(await due()).toBe(0);
    const task = command === 'assign_task' ? {} : { task: command === 'start_task' ? 'two' : 'one' };
    expect(await work.apply(command, { ...task, work_session })).toMatchObject({ ok: true });
    expect(await due()).toBeGreaterThan(3_500_000);
  },
);

it('I6 of several work sessions the one that is due first is watched', async () => {
  const work = await Initiative.of([[['one', 'two', 'three']]], db);
  const [first, second, third] = [await work.session(), await work.session(), await work.session()];
  for (const worker of [first, second, third]) await work.next(worker);
  await age(work, '10 minutes');
  for (const task of ['one', 'three']) {
    const held = task === 'one' ? first : third;
    await work.apply('report_progress', { task, work_session: held });
  }
  expect((await readInitiativeMark(db, work.id, HOUR))!.watched).toMatchObject({ work_session: second });
});

it('I6 who holds a task has to give signs of life, although its chat session is at work', async () => {
  const work = await Initiative.of([[['one']]], db);
  const chat = await Session.at('chatting', db);
  await work.next(await work.session({ session_id: chat.id }));
  await chat.say('go on');
  await age(work, '2 hours');
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  expect(watched).toMatchObject({ work_session: 'session-001', due_in_ms: 0 });
  await resetStale(db, work.id, watched!, HOUR);
  expect((await work.view()).sessions).toMatchObject([{ status: 'crashed' }]);
});

it('I6 a work session is ended only if it has given no sign of life since', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const worker = await work.session();
  await work.next(worker);
  await age(work, '3 hours');
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  await work.apply('report_progress', { task: 'one', work_session: worker });
  await resetStale(db, work.id, watched!, { ...HOUR, staleProgressMs: 0 });
  expect((await work.view()).sessions).toMatchObject([{ status: 'active' }]);
  await age(work, '3 hours');
  const kept = await readInitiativeMark(db, work.id, HOUR);
  const reset = await resetStale(db, work.id, kept!.watched!, HOUR);
  expect(reset).toMatchObject({ watched: null });
  expect(reset!.event_seq).toBeGreaterThan(kept!.event_seq);
  expect(await resetStale(db, work.id, kept!.watched!, HOUR)).toEqual(reset);
  expect((await work.view()).sessions).toMatchObject([{ status: 'crashed', completed: [] }]);
  expect(await resetStale(db, newId('ini'), kept!.watched!, HOUR)).toBeUndefined();
});

it('I6 a timer from before the settings were raised ends nobody early', async () => {
  const work = await Initiative.of([[['one']]], db);
  await work.next(await work.session());
  await age(work, '2 hours');
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  for (const raised of [{ staleAssignmentMs: 10_800_000 }, { staleProgressMs: 10_800_000 }]) {
    const mark = await resetStale(db, work.id, watched!, { ...HOUR, ...raised });
    expect((await work.view()).sessions).toMatchObject([{ status: 'active' }]);
    // The workflow waits again.
    expect(mark!.watched!.due_in_ms).toBeGreaterThan(3_500_000);
  }
  await resetStale(db, work.id, watched!, HOUR);
  expect((await work.view()).sessions).toMatchObject([{ status: 'crashed' }]);
});

it('I6 how a work session has ended does not hide what it did, nor whose work it went on with', async () => {
  const work = await Initiative.of([[['one', 'two', 'three']]], db);
  for (const task of ['one', 'two']) {
    const worker = await work.session();
    await work.next(worker);
    await work.complete(task, worker);
    await work.next(worker);
    await age(work, '2 hours');
    await resetStale(db, work.id, (await readInitiativeMark(db, work.id, HOUR))!.watched!, HOUR);
  }
  await work.apply('end_session', { id: await work.session(), notes: 'went well' });
  const { sessions } = await work.view();
  expect(sessions.map(({ completed }) => completed)).toEqual([['Phase 1, Plan 1: one'], ['Phase 1, Plan 1: two'], []]);
  expect(sessions.map(({ notes }) => notes?.split('\n'))).toEqual([
    ['Agent unresponsive, task reset'],
    ['Resuming from session-001 crash', 'Agent unresponsive, task reset'],
    ['Resuming from session-002 crash', 'went well'],
  ]);
});

it('I6 a sign of life counts, although a blocker takes its task away', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const worker = await work.session();
  await work.next(worker);
  await work.next(worker);
  await age(work, '3 hours');
  await work.apply('report_progress', { task: 'one', work_session: worker });
  await work.apply('add_blocker', { description: 'no tea', blocked_tasks: ['one'] });
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  expect(watched?.due_in_ms).toBeGreaterThan(3_500_000);
  await resetStale(db, work.id, watched!, HOUR);
  expect((await work.view()).sessions).toMatchObject([{ status: 'active' }]);
});

it('I6 a work session of a chat session that holds nothing is ended when both are silent', async () => {
  const work = await Initiative.of([[['one']]], db);
  const chat = await Session.at('chatting', db);
  const worker = await work.session({ session_id: chat.id });
  // Whoever has started this one ends it.
  await work.session();
  await work.next(worker);
  await work.complete('one', worker);
  await age(work, '2 hours');
  const { run_seq } = (await chat.say('go on')) as { run_seq: number };
  const busy = (await readInitiativeMark(db, work.id, HOUR))!.watched!;
  expect(busy).toMatchObject({ work_session: worker });
  expect(busy.due_in_ms).toBeGreaterThan(3_500_000);
  expect(await claimStaleInitiatives(db, HOUR, 50)).toEqual([]);
  const waiting = newId('msg');
  await chat.say('never mind', { id: waiting });
  expect(await chat.cancelQueued(waiting)).toMatchObject({ ok: true });
  await db.query(
    `UPDATE chat_runs SET finished_at = finished_at - interval '2 hours' WHERE session_id = $1 AND state = 'cancelled'`,
    [chat.id],
  );
  await chat.settleRun(run_seq, 'aborted');
  expect(await claimStaleInitiatives(db, HOUR, 50)).toEqual([]);
  await db.query(`UPDATE chat_runs SET finished_at = finished_at - interval '2 hours' WHERE session_id = $1`, [
    chat.id,
  ]);
  expect(await claimStaleInitiatives(db, HOUR, 50)).toMatchObject([{ initiative_id: work.id }]);
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  expect(await resetStale(db, work.id, watched!, HOUR)).toMatchObject({ watched: null });
  expect((await work.view()).sessions).toMatchObject([
    { status: 'ended', notes: 'No sign of life, no task held', completed: ['Phase 1, Plan 1: one'] },
    { status: 'active' },
  ]);
});

it('I6 P4 a work session that holds nothing goes on while subagents of its chat session work', async () => {
  const work = await Initiative.of([[['one']]], db);
  const { parent, run } = await parentAndChild(db, { background: true });
  await work.session({ session_id: parent.id });
  // Subagents in the background go on.
  await parent.settleRun(run, 'error');
  await age(work, '2 hours');
  await db.query(`UPDATE chat_runs SET finished_at = finished_at - interval '2 hours' WHERE session_id = $1`, [
    parent.id,
  ]);
  expect(await claimStaleInitiatives(db, HOUR, 50)).toEqual([]);
  expect(await parent.abort()).toMatchObject({ ok: true });
  expect(await claimStaleInitiatives(db, HOUR, 50)).toEqual([]);
  await db.query(`UPDATE tasks SET delivered_at = delivered_at - interval '2 hours' WHERE parent_id = $1`, [parent.id]);
  expect(await claimStaleInitiatives(db, HOUR, 50)).toMatchObject([{ initiative_id: work.id }]);
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  expect(await resetStale(db, work.id, watched!, HOUR)).toMatchObject({ watched: null });
});

it('I7 a work session ends with its chat session, and its task is open', async () => {
  const work = await Initiative.of([[['one']]], db);
  const chat = await Session.at('chatting', db);
  const over = await work.session({ session_id: chat.id });
  await work.apply('end_session', { id: over, notes: 'went well' });
  expect(await work.next(await work.session({ session_id: chat.id }))).toBe('one');
  expect(await chat.close()).toMatchObject({ ok: true });
  expect((await work.view()).sessions).toMatchObject([
    { status: 'ended', notes: 'went well' },
    { status: 'ended', notes: 'The chat session was closed' },
  ]);
  // Nothing is asked of the one that is over.
  expect((await logged(work)).slice(-2)).toEqual(['user task_assigned', 'system session_ended']);
  expect(await work.next(await work.session())).toBe('one');
});

it('I3 I7 a chat session has one work session, however many of its calls ask at once, and none without a task', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const chat = await Session.at('chatting', db);
  const before = await work.view();
  expect(await work.take(chat, 'start_task', { task_id: 'tsk_none' })).toMatchObject({ code: 'TaskNotFound' });
  expect(await work.view()).toEqual(before);
  const ask = (id: string) => work.take(chat, 'assign_task', { unstarted: true }, id);
  const asked = await work.whileLocked(...['1', '2', '1', '2', '3'].map((id) => () => ask(id)));
  const given = asked.map(({ ok, task_id, work_session }) => [ok, task_id, work_session]);
  expect(new Set(given.map(String)).size).toBe(1);
  expect(given[0]).toEqual([true, work.tasks.get('one'), 'session-001']);
  const { initiative, sessions } = await work.view();
  expect([sessions.length, initiative.version]).toEqual([1, before.initiative.version + 1]);
  expect((await logged(work)).slice(0, 3)).toEqual(['user created', 'user session_started', 'user task_assigned']);
  await work.apply('start_task', { task: 'one', work_session: 'session-001' });
  const again = await work.whileLocked(...[1, 2, 3].map(() => () => work.take(chat)));
  expect(again.map(({ task_id }) => task_id)).toEqual([1, 2, 3].map(() => work.tasks.get('two')));
  await work.apply('end_session', { id: 'session-001' });
  expect(await ask('1')).toEqual(asked[0]);
  expect((await work.view()).sessions).toHaveLength(1);
});

it('I7 a task that was set to in_progress is given again, too, until it is started', async () => {
  const work = await Initiative.of([[['one']]], db);
  const chat = await Session.at('chatting', db);
  await work.apply('update_state', { position: { phase: 1, plan: 1, task: 'one', status: 'in_progress' } });
  const one = work.tasks.get('one')!;
  for (const _ of [1, 2]) expect(await work.take(chat)).toMatchObject({ ok: true, task_id: one });
  expect(await work.take(chat, 'start_task', { task_id: one })).toMatchObject({ ok: true });
  expect(await work.take(chat)).toMatchObject({ nothing: true });
});

it('I7 a task that is held and not started comes first wherever the position is, as a sign of life, and not before a review', async () => {
  const work = await Initiative.of([[['one', 'two']], [['later']]], db);
  const chat = await Session.at('chatting', db);
  const next = async () => (await work.take(chat)).task_id;
  expect(await next()).toBe(work.tasks.get('one'));
  // A second one, which it has not asked for.
  await work.next('session-001');
  await work.apply('update_state', { position: { phase: 2, plan: 1, task: 'later' } });
  await age(work, '50 minutes');
  expect(await next()).toBe(work.tasks.get('one'));
  expect((await readInitiativeMark(db, work.id, HOUR))!.watched!.due_in_ms).toBeGreaterThan(3_500_000);
  const { resume_context } = (await work.view()).initiative;
  await work.apply('flag_review', {
    resume_context,
    mismatches: [{ kind: 'file', entry: 'gone.ts', problem: 'none' }],
  });
  expect(await work.take(chat)).toMatchObject({ code: 'ReviewRequired' });
});

it('I7 a session joins an initiative once, and only its user’s; its other metadata stay', async () => {
  const [own, other] = [await Initiative.of([[['one']]], db), await Initiative.of([[['one']]], db)];
  const theirs = await Initiative.of([[['one']]], db, { user: 'eve' });
  const chat = await Session.at('chatting', db);
  await call(db, 'rename_session', [chat.id, chat.user, 'An architect']);
  const join = async (work: Initiative, userId = work.user) => {
    await joinInitiative(db, { userId, initiativeId: work.id, sessionId: chat.id });
    return (await chat.chat())['metadata'];
  };
  const unjoined = { title: 'An architect' };
  expect(await join(theirs, chat.user)).toEqual(unjoined);
  expect(await join(theirs)).toEqual(unjoined);
  const joined = { ...unjoined, initiative_id: own.id };
  expect(await join(own)).toEqual(joined);
  expect(await join(other)).toEqual(joined);
});

it('I7 a work session begins with the start of a task, too, and its beginning is a sign of life', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const chat = await Session.at('chatting', db);
  await work.session({ session_id: (await Session.at('chatting', db)).id });
  expect((await readInitiativeMark(db, work.id, HOUR))!.watched!.due_in_ms).toBeGreaterThan(3_500_000);
  const two = work.tasks.get('two')!;
  expect(await work.take(chat, 'start_task', { task_id: two })).toMatchObject({
    ok: true,
    work_session: 'session-002',
  });
  expect((await work.view()).sessions[1]).toMatchObject({ session_id: chat.id, working_on: 'Phase 1, Plan 1: two' });
});

/** A report and the end of the same work session, in this order. Returns which has won; all rows are as if it were alone. */
async function race(
  order: readonly ['report' | 'end', 'report' | 'end'],
  start: (work: Initiative, first: () => Promise<unknown>, second: () => Promise<unknown>) => Promise<unknown>,
): Promise<'report' | 'end'> {
  const work = await Initiative.of([[['one']]], db);
  const worker = await work.session();
  await work.next(worker);
  await age(work, '2 hours');
  const { watched } = (await readInitiativeMark(db, work.id, HOUR))!;
  let reported: { ok: boolean; code?: string | undefined } | undefined;
  const calls = {
    end: () => resetStale(db, work.id, watched!, HOUR),
    report: async () => (reported = await work.apply('report_progress', { task: 'one', work_session: worker })),
  };
  await start(work, calls[order[0]], calls[order[1]]);
  const { sessions } = await work.view();
  const held = (await readInitiativeMark(db, work.id, HOUR))!.watched?.work_session;
  const { tasks } = await work.statuses();
  const found = [reported!.code, sessions[0]!.status, held, tasks['one']];
  expect(found).toEqual(
    reported!.ok ? [undefined, 'active', worker, 'open'] : ['TaskAssigned', 'crashed', undefined, 'open'],
  );
  return reported!.ok ? 'report' : 'end';
}

it('I6 of a report and the end at the same moment exactly one wins', async () => {
  for (let round = 0; round < 60; round += 1) {
    await race(round % 2 === 0 ? ['end', 'report'] : ['report', 'end'], (_, first, second) =>
      Promise.all([first(), second()]),
    );
  }
});

it.each([
  ['report', 'end'],
  ['end', 'report'],
] as const)('I6 of two that wait for the same initiative the first wins: the %s before the %s', async (...order) => {
  const winner = await race(order, (work, ...calls) => work.whileLocked(...calls));
  expect(winner).toBe(order[0]);
});

it('I6 sweepers claim an initiative once in ten seconds, and only when its workflow is late', async () => {
  const [late, early, busy] = await Promise.all([1, 2, 3].map(() => Initiative.of([[['one']]], db)));
  for (const work of [late!, early!, busy!]) await work.next(await work.session());
  await age(late!, '2 hours');
  await age(busy!, '2 hours');
  await busy!.apply('report_progress', { task: 'one', work_session: 'session-001' });
  const claims = await Promise.all([1, 2, 3].map(() => claimStaleInitiatives(db, HOUR, 50)));
  expect(claims.flat()).toMatchObject([{ initiative_id: late!.id, user_id: 'ada', status: 'active' }]);
  expect(await claimStaleInitiatives(db, HOUR, 50)).toEqual([]);
  await db.query(`UPDATE initiatives SET swept_at = swept_at - interval '11 seconds' WHERE initiative_id = $1`, [
    late!.id,
  ]);
  expect(await claimStaleInitiatives(db, HOUR, 50)).toHaveLength(1);
});

it('I5 a change of the status is claimed two seconds later, once in ten seconds, until it is found in Temporal', async () => {
  const work = await Initiative.of([[['one']]], db);
  const claim = async () =>
    (await Promise.all([1, 2, 3].map(() => claimChangedInitiatives(db, 50))))
      .flat()
      .filter(({ initiative_id }) => initiative_id === work.id);
  const wait = (by: string) =>
    db.query('UPDATE initiatives SET check_at = check_at - $2::interval WHERE initiative_id = $1', [work.id, by]);
  const until = `SELECT check_at >= created_at + interval '2 seconds' AS late FROM initiatives WHERE initiative_id = $1`;
  expect((await db.query(until, [work.id])).rows).toEqual([{ late: true }]);
  await wait('2 seconds');
  expect(await claim()).toMatchObject([{ user_id: 'ada', status: 'active' }]);
  expect(await claim()).toEqual([]);
  await wait('10 seconds');
  const [again] = await claim();
  await work.apply('add_blocker', { description: 'no tea', blocked_tasks: ['one'] });
  await endInitiativeChecks(db, [again!]);
  await wait('2 seconds');
  const [escalated] = await claim();
  expect(escalated).toMatchObject({ status: 'escalated' });
  await wait('10 seconds');
  await noteStuck(db, { id: work.id, kind: 'initiative' }, 'NondeterminismError');
  expect(await claim()).toEqual([]);
  await noteStuck(db, { id: work.id, kind: 'initiative' }, null);
  const [last] = await claim();
  await endInitiativeChecks(db, [escalated!, last!]);
  await work.apply('add_blocker', { description: 'no water' });
  await wait('1 hour');
  expect(await claim()).toEqual([]);
});

it('I5 no sweeper waits for an initiative that is in use: it is claimed, and found equal, later', async () => {
  const work = await Initiative.of([[['one']]], db);
  // Before those of other tests.
  await db.query(`UPDATE initiatives SET check_at = now() - interval '1 day' WHERE initiative_id = $1`, [work.id]);
  const claim = async () =>
    (await claimChangedInitiatives(db, 50)).filter(({ initiative_id }) => initiative_id === work.id);
  const whileInUse = async <T>(act: () => Promise<T>): Promise<T> => {
    const user = await db.connect();
    try {
      await user.query('BEGIN');
      await user.query('SELECT FROM initiatives WHERE initiative_id = $1 FOR NO KEY UPDATE', [work.id]);
      return await act();
    } finally {
      await user.query('ROLLBACK');
      user.release();
    }
  };
  expect(await whileInUse(claim)).toEqual([]);
  const claimed = await claim();
  expect(claimed).toHaveLength(1);
  await whileInUse(() => endInitiativeChecks(db, claimed));
  const ended = () => db.query('SELECT FROM initiatives WHERE initiative_id = $1 AND check_at IS NULL', [work.id]);
  expect((await ended()).rowCount).toBe(0);
  await endInitiativeChecks(db, claimed);
  expect((await ended()).rowCount).toBe(1);
});

it('I3 a workflow gets a recorded outcome, carries out ids as an operator, and refuses what has texts', async () => {
  const work = await Initiative.of([[['one']]], db);
  const worker = await work.session();
  const ask = (name: string, id: string, args: object | null) =>
    applyForWorkflow(db, work.id, { name, id, args }, HOUR);
  const recorded = await work.apply('add_decision', { context: 'c', decision: 'd', reason: 'r' }, 'add_decision:1');
  expect(await ask('add_decision', 'add_decision:1', null)).toMatchObject(recorded);
  expect(await ask('add_decision', 'add_decision:2', null)).toMatchObject({ ok: false, code: 'BadRequest' });
  const given = await ask('assign_task', 'assign_task:1', { work_session: worker });
  expect(given).toMatchObject({ ok: true, mark: { watched: { work_session: worker } } });
  expect(await ask('assign_task', 'assign_task:1', { work_session: worker })).toMatchObject({
    task_id: given!.task_id!,
  });
  expect(await applyForWorkflow(db, newId('ini'), { name: 'x', id: 'y', args: null }, HOUR)).toBeUndefined();
});
