// Commands of initiatives in the database: what each changes, receipts, blockers, work sessions, claims, erasure.
import { expect, it } from 'vitest';
import { InitiativeReader } from '../../client/initiatives/initiative-reader.ts';
import { newId } from '../../domain/ids.ts';
import {
  applyInitiativeCommand,
  applyInitiativeEdit,
  type InitiativeUpdate,
  listInitiatives,
  readInitiative,
  readInitiativeBrief,
} from '../../store/initiatives.ts';
import { MAX_TASKS } from '../../wire/initiative-requests.ts';
import { Initiative } from './initiative.ts';
import { call, freshRows, refusal, rows, Session, untilBlocked } from './session.ts';

const db = await freshRows({ max: 20 });

it('I3 a completed task moves the position: lowest wave first, then plans and phases in order, counters reset', async () => {
  const work = await Initiative.of([[[['later', 2], 'one', 'two'], ['three']], [['four']]], db);
  const worker = await work.session();
  const seen = [];
  for (;;) {
    const { state, initiative } = await work.view();
    const { progress, position } = state;
    const { phases_completed, current_phase_tasks, current_phase_completed } = progress;
    seen.push([position.task, position.status, phases_completed, current_phase_completed, current_phase_tasks]);
    if (initiative.status === 'completed') break;
    expect(await work.complete(position.task, worker, `did ${position.task}`)).toMatchObject({ ok: true });
  }
  expect(seen).toEqual([
    ['one', 'open', 0, 0, 4],
    ['two', 'open', 0, 1, 4],
    ['later', 'open', 0, 2, 4],
    ['three', 'open', 0, 3, 4],
    ['four', 'open', 1, 0, 1],
    ['four', 'completed', 2, 0, 0],
  ]);
  const { phases } = await work.view();
  expect(phases[0]?.plans[0]).toMatchObject({
    status: 'completed',
    summary: '- one: did one\n- two: did two\n- later: did later',
  });
});

it('I3 a repeated command gets its recorded outcome and changes nothing', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const key = newId('cmd');
  const first = await work.apply('start_session', { agent: 'a' }, key);
  expect(await work.apply('start_session', { agent: 'b' }, key)).toEqual(first);
  const claim = newId('cmd');
  const claims = await Promise.all(
    Array.from({ length: 5 }, () => work.apply('assign_task', { work_session: first.id }, claim)),
  );
  expect(new Set(claims.map((each) => each.task_id)).size).toBe(1);
  const refused = newId('cmd');
  const late = { task: 'two', work_session: 'session-001' };
  expect(await work.apply('complete_task', late, refused)).toMatchObject({ ok: false, code: 'TaskAssigned' });
  await work.apply('start_task', late);
  expect(await work.apply('complete_task', late, refused)).toMatchObject({ code: 'TaskAssigned' });
  expect((await work.view()).sessions).toHaveLength(1);
});

it('I3 refuses what the rows do not allow, by name, and changes nothing', async () => {
  const work = await Initiative.of([[['one', 'two']]], db, { title: 'refusals' });
  const [worker, other, gone] = [await work.session(), await work.session(), await work.session()];
  await work.apply('end_session', { id: gone });
  await work.apply('start_task', { task: 'one', work_session: worker });
  await work.apply('add_blocker', { description: 'b', affects: [] });
  await work.apply('resolve_blocker', { id: 'block-001', resolution: 'r' });
  const before = await work.view();
  const position = (more: object) => ({ position: { phase: 1, plan: 1, task: 'two', ...more } });
  const cases: [string, Record<string, unknown>, object][] = [
    ['start_task', { task: 'one', work_session: other }, { code: 'TaskAssigned', assigned_to: worker }],
    ['complete_task', { task: 'one', work_session: other }, { code: 'TaskAssigned' }],
    ['complete_task', { task: 'two', work_session: worker }, { code: 'TaskAssigned', assigned_to: null }],
    ['report_progress', { task: 'two', work_session: worker }, { code: 'TaskAssigned' }],
    ['start_task', { task: 'one', work_session: worker }, { code: 'InvalidTransition', status: 'in_progress' }],
    ['start_task', { task: 'tsk_none', work_session: worker }, { code: 'TaskNotFound' }],
    ['start_task', { task: 'two', work_session: 'session-009' }, { code: 'WorkSessionNotFound' }],
    ['assign_task', { work_session: gone }, { code: 'InvalidTransition', machine: 'work_session' }],
    ['end_session', { id: gone }, { code: 'InvalidTransition', status: 'ended' }],
    ['start_session', { agent: 'a', session_id: 'ses_none' }, { code: 'SessionNotFound' }],
    ['bypass_blocker', { id: 'block-001', workaround: 'w' }, { code: 'BlockerResolved' }],
    ['resolve_blocker', { id: 'block-001', resolution: 'r' }, { code: 'BlockerResolved' }],
    ['resolve_blocker', { id: 'block-009', resolution: 'r' }, { code: 'BlockerNotFound' }],
    ['add_blocker', { description: 'b', blocked_tasks: ['tsk_none'] }, { code: 'TaskNotFound' }],
    ['update_state', position({ task: 'none' }), { code: 'BadRequest', field: 'position.task' }],
    ['update_state', position({ plan: 7 }), { code: 'BadRequest', field: 'position.plan' }],
    ['update_state', position({ phase: 2 }), { code: 'BadRequest', field: 'position.phase' }],
    ['update_state', position({ wave: 2 }), { code: 'BadRequest', field: 'position.wave' }],
    ['update_state', position({ phase_name: 'x' }), { code: 'BadRequest', field: 'position.phase_name' }],
    ['update_state', position({ status: 'completed' }), { code: 'BadRequest', field: 'position.status' }],
    ['update_state', position({ task: 'one', status: 'open' }), { code: 'TaskAssigned' }],
  ];
  for (const [command, args, expected] of cases) {
    expect(await work.apply(command, args), command).toMatchObject({ ok: false, ...expected });
  }
  expect(await work.apply('update_state', { next_action: 'x' }, newId('cmd'), 'eve')).toMatchObject({
    code: 'InitiativeNotFound',
  });
  expect(await work.view()).toEqual(before);
});

it('I3 the position is moved to any uncompleted task, and goes on from there', async () => {
  const work = await Initiative.of([[['one', 'two']], [['three', 'four']]], db);
  const worker = await work.session();
  await work.apply('update_state', {
    position: { phase: 2, plan: 1, task: 'three', status: 'in_progress' },
    next_action: 'Go on.\n',
    resume_context: { open_questions: ['why?'] },
  });
  expect(await work.view()).toMatchObject({
    initiative: {
      next_action: 'Go on.\n',
      resume_context: { files_modified_this_session: [], key_implementations: [], open_questions: ['why?'] },
    },
    state: { position: { phase: 2, phase_name: 'phase 2', task: 'three', status: 'in_progress' } },
  });
  await work.complete('three', worker);
  expect((await work.statuses()).position).toBe('four open');
  await work.complete('four', worker);
  expect((await work.statuses()).position).toBe('one open');
});

it('I3 a task that was set to in_progress and that nobody holds is given out last, started and completed once', async () => {
  const work = await Initiative.of([[['one', 'two', ['three', 2]]]], db);
  const [worker, other] = [await work.session(), await work.session()];
  // Also in a wave that has not begun, which gives out nothing.
  for (const task of ['three', 'one'])
    await work.apply('update_state', { position: { phase: 1, plan: 1, task, status: 'in_progress' } });
  expect([await work.next(worker), await work.next(other), await work.next(other)]).toEqual(['two', 'one', undefined]);
  expect((await work.statuses()).position).toBe('one in_progress');
  expect(await work.apply('start_task', { task: 'one', work_session: worker })).toMatchObject({ code: 'TaskAssigned' });
  expect(await work.apply('start_task', { task: 'one', work_session: other })).toMatchObject({ ok: true });
  expect(await work.apply('start_task', { task: 'one', work_session: other })).toMatchObject({
    code: 'InvalidTransition',
  });
  await work.apply('complete_task', { task: 'one', work_session: other });
  await work.complete('two', worker);
  expect((await work.statuses()).position).toBe('three in_progress');
});

it('I5 a blocker blocks tasks, pauses the phase and escalates the initiative; resolving resumes exactly that', async () => {
  const work = await Initiative.of([[['one', 'two']], [['three']]], db);
  const worker = await work.session();
  await work.apply('start_task', { task: 'one', work_session: worker });
  const block = async (...blocked_tasks: string[]) =>
    (await work.apply('add_blocker', { description: 'b', affects: ['x'], blocked_tasks })).id ?? '';
  const first = await block('one');
  expect(await work.changed()).toEqual({ kind: 'blocker_found' });
  expect(await work.statuses()).toEqual({
    initiative: 'active',
    phases: ['active', 'active'],
    tasks: { one: 'blocked', two: 'open', three: 'open' },
    position: 'one blocked',
  });
  expect(await work.apply('complete_task', { task: 'one', work_session: worker })).toMatchObject({
    code: 'TaskAssigned',
  });
  const second = await block('one', 'two');
  expect(await work.statuses()).toMatchObject({
    initiative: 'paused',
    phases: ['paused', 'active'],
    position: 'one paused',
  });
  expect(await work.changed()).toEqual({ kind: 'blocker_found', phases: { 1: 'paused' }, status: 'paused' });
  const third = await block('three');
  expect(await work.statuses()).toMatchObject({
    initiative: 'escalated',
    phases: ['paused', 'paused'],
    position: 'one escalated',
  });
  expect(await work.changed()).toEqual({ kind: 'blocker_found', phases: { 2: 'paused' }, status: 'escalated' });
  await work.apply('resolve_blocker', { id: second, resolution: 'r' });
  expect(await work.statuses()).toEqual({
    initiative: 'active',
    phases: ['active', 'paused'],
    tasks: { one: 'blocked', two: 'open', three: 'blocked' },
    position: 'one blocked',
  });
  expect(await work.changed()).toEqual({ kind: 'blocker_resolved', phases: { 1: 'active' }, status: 'active' });
  await work.apply('bypass_blocker', { id: first, workaround: 'w', workaround_tasks: ['undo'] });
  expect(await work.statuses()).toMatchObject({
    tasks: { one: 'open', two: 'open', undo: 'open', three: 'blocked' },
    position: 'one open',
  });
  await work.apply('resolve_blocker', { id: first, resolution: 'r' });
  await work.apply('resolve_blocker', { id: third, resolution: 'r' });
  expect(await work.statuses()).toMatchObject({ initiative: 'active', phases: ['active', 'active'] });
  const { blockers } = await work.view();
  expect(blockers[0]).toMatchObject({
    id: 'block-001',
    status: 'resolved',
    workaround: 'w',
    blocked_tasks: [{ name: 'one' }],
    workaround_tasks: [{ name: 'undo' }],
  });
  const clash = await work.session();
  await work.apply('add_blocker', { description: 'b', blocked_tasks: ['two'] });
  expect(
    await work.apply('bypass_blocker', { id: 'block-004', workaround: 'w', workaround_tasks: ['undo'] }),
  ).toMatchObject({ code: 'BadRequest', field: 'workaround_tasks' });
  expect(await work.next(clash)).toBe('one');
});

it('I5 a bypass adds no tasks beyond the most that an initiative may have', async () => {
  const names = Array.from({ length: MAX_TASKS - 1 }, (_, n) => `task ${n}`);
  const work = await Initiative.of([[names]], db);
  await work.apply('add_blocker', { description: 'd', affects: [] });
  const bypass = (workaround_tasks: string[]) =>
    work.apply('bypass_blocker', { id: 'block-001', workaround: 'w', workaround_tasks });
  expect(await bypass(['one', 'two'])).toMatchObject({ code: 'BadRequest', field: 'workaround_tasks' });
  expect(await bypass(['one'])).toMatchObject({ ok: true });
  expect(await bypass(['two'])).toMatchObject({ code: 'BadRequest' });
});

it('I5 no statement takes a status out of its table, and the log cannot be changed', async () => {
  const work = await Initiative.of([[['one']]], db);
  const set = (table: string, status: string) =>
    refusal(db.query(`UPDATE ${table} SET status = $2 WHERE initiative_id = $1`, [work.id, status]));
  expect(await set('initiative_tasks', 'completed')).toBe('PD001');
  expect(await set('initiative_tasks', 'odd')).toBe('PD001');
  await work.complete('one', await work.session());
  expect(await set('initiative_tasks', 'open')).toBe('PD001');
  expect(await set('initiative_phases', 'active')).toBe('PD001');
  expect(await set('initiatives', 'active')).toBe('PD001');
  expect(await refusal(db.query('DELETE FROM initiative_events WHERE initiative_id = $1', [work.id]))).toBe('PD001');
  expect(await refusal(db.query(`UPDATE initiative_events SET kind = 'x' WHERE initiative_id = $1`, [work.id]))).toBe(
    'PD001',
  );
});

it('I1 I3 work sessions: what they did, handed off and held; the next one is told about a crash', async () => {
  const work = await Initiative.of([[['one', 'two', 'three']]], db);
  const chat = await Session.at('chatting', db);
  const first = await work.session({ session_id: chat.id, working_on: 'reading' });
  await work.complete('one', first);
  await work.apply('start_task', { task: 'two', work_session: first });
  expect(await work.next(first)).toBe('three');
  await work.apply('end_session', {
    id: first,
    context_usage: 0.62,
    issues: ['odd'],
    handoff_reason: 'limit',
    notes: 'fine',
  });
  expect((await work.view()).sessions).toMatchObject([
    {
      id: 'session-001',
      agent: 'worker',
      session_id: chat.id,
      status: 'ended',
      working_on: 'Phase 1, Plan 1: two',
      completed: ['Phase 1, Plan 1: one'],
      issues: ['odd', 'More than half of the context was used'],
      context_usage: 0.62,
      handoff_reason: 'limit',
      notes: 'fine',
    },
  ]);
  expect((await work.statuses()).tasks).toEqual({ one: 'completed', two: 'open', three: 'open' });
  const second = await work.session();
  expect([await work.next(second), await work.next(second), await work.next(second)]).toEqual([
    'two',
    'three',
    undefined,
  ]);
  await db.query(`UPDATE session_history SET status = 'crashed' WHERE initiative_id = $1 AND id = $2`, [
    work.id,
    second,
  ]);
  await work.session();
  await work.session();
  expect((await work.view()).sessions.map(({ notes }) => notes)).toEqual([
    'fine',
    null,
    'Resuming from session-002 crash',
    null,
  ]);
});

it('I7 what a prompt says of an initiative is cut where it is read', async () => {
  const work = await Initiative.of([[['one']]], db);
  const long = `\n ${'x'.repeat(10_000)}`;
  await work.apply('update_state', { next_action: long });
  for (let n = 0; n < 21; n += 1) {
    await work.apply('add_decision', { context: long, decision: long, reason: long, decision_id: newId('dec') });
    await work.apply('add_blocker', { description: long });
  }
  const brief = (await readInitiativeBrief(db, { userId: work.user, initiativeId: work.id }))!;
  expect([brief.decisions.count, brief.decisions.items.length, brief.blockers.items.length]).toEqual([21, 20, 20]);
  expect([brief.next_action, brief.blockers.items[0]!.description]).toEqual(['x'.repeat(1_000), 'x'.repeat(1_000)]);
  expect(JSON.stringify(brief).length).toBeLessThan(100_000);
});

it('I2 T9 erasing a chat session that STATE.md names gives another version', async () => {
  const work = await Initiative.of([[['one']]], db);
  const chat = await Session.at('chatting', db);
  await work.session({ session_id: chat.id });
  const { version } = (await work.view()).initiative;
  await call(db, 'erase_session', [chat.id, chat.user, 'home', false]);
  const after = await work.view();
  expect(after.sessions[0]).toMatchObject({ session_id: null, status: 'ended', notes: 'The chat session was erased' });
  expect(after.initiative.version).toBeGreaterThan(version);
  const named = 'SELECT FROM initiative_events WHERE initiative_id = $1 AND strpos(data::text, $2) > 0';
  expect(await rows(db, named, [work.id, chat.id])).toEqual([]);
  const edit = { command: 'update_state', args: { next_action: 'edited' } };
  const target = { initiativeId: work.id, userId: work.user, commandId: newId('cmd') };
  expect(await applyInitiativeEdit(db, target, version, [edit])).toMatchObject({ code: 'StaleState' });
});

it('I3 T9 work sessions that are started in a chat session while it is erased deadlock nothing, and none goes unnoticed', async () => {
  let started = 0;
  for (let round = 0; round < 30; round += 1) {
    const work = await Initiative.of([[['one']]], db);
    const chats = await Promise.all([Session.at('chatting', db), Session.at('chatting', db)]);
    const worked = new Set<string>();
    const start = async ({ id }: Session) => {
      if ((await work.apply('start_session', { agent: 'worker', session_id: id })).ok) worked.add(id);
    };
    await Promise.all([
      ...chats.map((chat) => call(db, 'erase_session', [chat.id, chat.user, 'home', false])),
      ...[...chats, ...chats].map(start),
    ]);
    const { initiative, sessions } = await work.view();
    expect(sessions.every(({ session_id }) => session_id === null)).toBe(true);
    const noted = `SELECT kind FROM initiative_events WHERE initiative_id = $1 AND kind IN ('chat_erased', 'session_ended')`;
    const kinds = (await rows(db, noted, [work.id])).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'chat_erased')).toHaveLength(worked.size);
    expect(kinds.filter((kind) => kind === 'session_ended')).toHaveLength(sessions.length);
    expect(initiative.version).toBe(1 + sessions.length + kinds.length);
    started += sessions.length;
  }
  expect(started).toBeGreaterThan(0);
});

it('I3 an edit is all or nothing, and only of the version that was read', async () => {
  const work = await Initiative.of([[['one']]], db);
  const { initiative } = await work.view();
  const edit = (version: number, ...updates: InitiativeUpdate[]) =>
    applyInitiativeEdit(db, { initiativeId: work.id, userId: work.user, commandId: newId('cmd') }, version, updates);
  const good = { command: 'update_state', args: { next_action: 'edited' } };
  const bad = { command: 'resolve_blocker', args: { id: 'block-001', resolution: 'r' } };
  expect(await edit(initiative.version, good, bad)).toMatchObject({ ok: false, code: 'BlockerNotFound', n: 1 });
  expect((await work.view()).initiative).toEqual(initiative);
  expect(await edit(initiative.version, good)).toEqual({ ok: true });
  expect(await edit(initiative.version, good)).toMatchObject({ ok: false, code: 'StaleState' });
  expect((await work.view()).initiative.next_action).toBe('edited');
});

it('I3 H12 16 workers claim 1,000 tasks once each beside other commands; followers get all changes, each before its state', async () => {
  const names = Array.from({ length: 1_000 }, (_, n) => `task ${n}`);
  const work = await Initiative.of([[names]], db);
  const workers = await Promise.all(Array.from({ length: 16 }, () => work.session()));
  const claimed: string[] = [];
  const claimAll = async (worker: string) => {
    for (let name = await work.next(worker); name !== undefined; name = await work.next(worker)) claimed.push(name);
  };
  const over = new AbortController();
  const others = async () => {
    while (!over.signal.aborted)
      expect(await work.apply('update_state', { next_action: `${claimed.length}` })).toMatchObject({ ok: true });
  };
  const begin = async () => {
    const seen: number[] = [];
    // Each `update_state` makes a version, assignments make none.
    let { version } = (await work.view()).initiative;
    const reading = new InitiativeReader(db, { userId: work.user, initiativeId: work.id });
    const read = async () => {
      for (;;) {
        const { items, againInMs } = await reading.read();
        for (const { event, data } of items) {
          if (event === 'state') expect(data.initiative.version, 'the version after the changes so far').toBe(version);
          else if (data.kind === 'state_updated') version += 1;
          if (event === 'change') seen.push(data.seq);
        }
        if (againInMs === undefined) return;
      }
    };
    await read();
    return { seen, read };
  };
  const [live, late] = [await begin(), await begin()];
  const log = 'FROM initiative_events WHERE initiative_id = $1';
  const [before] = await rows(db, `SELECT max(seq)::int AS newest ${log}`, [work.id]);
  const following = async () => {
    while (!over.signal.aborted) await live.read();
  };
  const claiming = Promise.all(workers.map((worker) => claimAll(worker))).finally(() => over.abort());
  await Promise.all([claiming, others(), following()]);
  for (const { read } of [live, late]) await read();
  const logged = await rows(db, `SELECT seq::int AS seq ${log} AND seq > $2 ORDER BY seq`, [
    work.id,
    before!['newest'],
  ]);
  for (const { seen } of [live, late]) expect(seen).toEqual(logged.map(({ seq }) => seq));
  expect(claimed.toSorted()).toEqual(names.toSorted());
});

it('I3 H12 claims do not wait for each other’s commits, and a follower waits for those that came first', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const [slow, fast] = [await work.session(), await work.session()];
  const reading = new InitiativeReader(db, { userId: work.user, initiativeId: work.id });
  await reading.read();
  const transaction = await db.connect();
  try {
    await transaction.query('BEGIN');
    const target = { initiativeId: work.id, userId: work.user, commandId: newId('cmd') };
    const claim = { command: 'assign_task', args: { work_session: slow } };
    expect(await applyInitiativeCommand(transaction, target, claim)).toMatchObject({ task_id: work.tasks.get('one') });
    expect(await work.next(fast)).toBe('two');
    const read = reading.read();
    await untilBlocked(db);
    await transaction.query('COMMIT');
    expect((await read).items.map(({ data }) => data)).toMatchObject([
      { kind: 'task_assigned', data: { task_id: work.tasks.get('one') } },
      { kind: 'task_assigned', data: { task_id: work.tasks.get('two') } },
    ]);
  } finally {
    await transaction.query('ROLLBACK');
    transaction.release();
  }
});

it('I3 H12 a follower does not wait for an edit, and gets all of it once it is committed', async () => {
  const work = await Initiative.of([[['one']]], db);
  const reading = new InitiativeReader(db, { userId: work.user, initiativeId: work.id });
  await reading.read();
  const { version } = (await work.view()).initiative;
  const transaction = await db.connect();
  try {
    await transaction.query('BEGIN');
    const target = { initiativeId: work.id, userId: work.user, commandId: newId('cmd') };
    const updates = ['first', 'second'].map((next_action) => ({ command: 'update_state', args: { next_action } }));
    expect(await applyInitiativeEdit(transaction, target, version, updates)).toEqual({ ok: true });
    expect((await reading.read()).items).toEqual([]);
    await transaction.query('COMMIT');
    expect((await reading.read()).items).toMatchObject([
      { event: 'change', data: { kind: 'state_updated' } },
      { event: 'change', data: { kind: 'state_updated' } },
      { event: 'state', data: { initiative: { next_action: 'second' } } },
    ]);
  } finally {
    await transaction.query('ROLLBACK');
    transaction.release();
  }
});

it('I1 a user’s initiatives are listed newest first, in pages, and no other user sees them', async () => {
  const user = 'lister';
  const made = [];
  for (const title of ['one', 'two', 'three']) made.unshift(await Initiative.of([[[title]]], db, { user, title }));
  const first = await listInitiatives(db, user, null, 2);
  const second = await listInitiatives(db, user, first[1]!.initiative.initiative_id, 2);
  const ids = [...first, ...second].map(({ initiative }) => initiative.initiative_id);
  expect(ids).toEqual(made.map(({ id }) => id));
  expect(first[0]).toMatchObject({ initiative: { title: 'three' }, state: { position: { task: 'three' } } });
  expect(await readInitiative(db, 'eve', ids[0]!)).toBeUndefined();
});

it('T9 a user’s initiatives are erased with the user, those of others stay', async () => {
  const canary = `canary-${newId('msg')}`;
  const work = await Initiative.of([[[canary]]], db, { user: 'eraser', title: canary });
  const worker = await work.session({ agent: canary });
  await work.apply('add_decision', { context: canary, decision: canary, reason: canary });
  await work.apply('add_blocker', { description: canary, affects: [canary], blocked_tasks: [canary] });
  await work.apply('bypass_blocker', { id: 'block-001', workaround: canary, workaround_tasks: [`${canary} 2`] });
  await work.complete(canary, worker, canary);
  const other = await Initiative.of([[['stays']]], db, { user: 'neighbour' });
  const before = await other.view();
  await call(db, 'erase_user_rest', ['eraser', 'home']);
  const tables = await rows(
    db,
    `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`,
  );
  // The queue of erasures names the workflow and the folder.
  for (const { relname } of tables.filter((each) => each['relname'] !== 'erasures')) {
    const found = await rows(
      db,
      `SELECT FROM "${String(relname)}" AS row WHERE row::text LIKE $1 OR row::text LIKE $2`,
      [`%${canary}%`, `%${work.id}%`],
    );
    expect(found, String(relname)).toEqual([]);
  }
  expect(await readInitiative(db, 'eraser', work.id)).toBeUndefined();
  const queued = await rows(db, `SELECT workflow_id, folder FROM erasures WHERE workflow_id = $1 OR folder = $2`, [
    work.id,
    `home/${work.id}`,
  ]);
  expect(queued).toHaveLength(2);
  expect(await other.view()).toEqual(before);
});
