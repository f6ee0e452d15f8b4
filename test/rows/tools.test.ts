import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { beginTool } from '../../store/tools.ts';
import { freshRows, phaseByLog, rows, Session, type Answer } from './session.ts';

const db = await freshRows();

const STEP = [0, 1, 1] as const;
const FIRST = [0, 2, 1] as const;
const SECOND = [0, 2, 2] as const;
const build = (project: 'new' | 'required' | null, id = newId('prj')) => ({
  ...{ event: 'start_build', at: 'start', project },
  ...(project === 'new' ? { new_project_id: id } : {}),
});

async function calling(session: Session, callIds = ['call_1']): Promise<number> {
  return session.runWithCalls(callIds, STEP);
}

const todos = (project: string) =>
  rows(db, 'SELECT name, done_at IS NOT NULL AS done FROM project_todos WHERE project_id = $1 ORDER BY name', [
    project,
  ]);

/** Everything except the log and the claim of the run. */
async function allButLogAndClaim(session: Session): Promise<unknown> {
  const [row, chat, messages, _runs, parts, deltas, _events, ...others] = await session.everything();
  return [row, chat, messages, parts, deltas, ...others];
}

it('S5 a tool that opens a project: project, lock, transition and pending tool are one transaction', async () => {
  const session = await Session.at('chatting', db);
  const run = await calling(session);
  const raise = build('new');
  const begun = await session.beginTool(run, FIRST, 'call_1', raise);
  expect(begun).toMatchObject({ kind: 'begun', phase: 'building', project_id: raise.new_project_id });
  expect(await session.row()).toMatchObject({
    phase: 'building',
    project_id: raise.new_project_id,
    pending_tool: { tool_call_id: 'call_1', name: 'build_and_deploy' },
  });
  const [project] = await rows(db, 'SELECT user_id FROM projects WHERE project_id = $1', [raise.new_project_id]);
  expect(project).toEqual({ user_id: 'ada' });
  expect((await session.events()).at(-1)).toMatchObject({
    kind: 'transition',
    actor: 'tool',
    data: {
      event: 'start_build',
      from: 'chatting',
      to: 'building',
      project_id: raise.new_project_id,
      tool_call_id: 'call_1',
    },
  });
});

it('S5 a call that is started again after a crash finds its first start, and starts nothing twice', async () => {
  const session = await Session.at('chatting', db);
  const run = await calling(session);
  const raise = build('new');
  await session.beginTool(run, FIRST, 'call_1', raise);
  const before = await allButLogAndClaim(session);
  const again = await session.beginTool(run, SECOND, 'call_1', build('new'));
  expect(again).toMatchObject({ kind: 'again', phase: 'building', project_id: raise.new_project_id });
  expect(await allButLogAndClaim(session)).toEqual(before);
  expect(await session.finishTool(run, SECOND, 'call_1')).toMatchObject({ kind: 'settled', ok: true });
  expect(await session.beginTool(run, [0, 2, 3], 'call_1', build('new'))).toMatchObject({ kind: 'settled' });
  expect((await session.events()).filter(({ kind }) => kind === 'transition')).toHaveLength(1);
});

it('S5 a call is begun again only by the attempt that began it, whatever the clocks of workers say', async () => {
  const [one, other] = [randomUUID(), randomUUID()];
  const repeats = [
    { first: [0, 2, 1], repeat: [0, 2, 1, 1], next: [0, 2, 2] },
    // A head start, with which another worker goes on.
    { first: [0, 2, 0], repeat: [0, 2, 0, 1], next: [0, 2, 0, 2], worker: one, takesOver: other },
  ] as const;
  for (const { first, repeat, next, ...workers } of repeats) {
    const session = await Session.at('chatting', db);
    const run = await calling(session);
    const begin = async (fence: Fence, worker?: string) => {
      const pending = { tool_call_id: 'call_1', name: 'build_and_deploy', message_id: 'msg', step: 1 };
      const claim = { sessionId: session.id, runSeq: run, fence, ...(worker !== undefined && { worker }) };
      return (await beginTool(db, claim, pending, { raise: null })).kind;
    };
    const { worker, takesOver } = { worker: undefined, takesOver: undefined, ...workers };
    expect(await begin(first, worker)).toBe('begun');
    const { started_at } = (await session.row())['pending_tool'] as { started_at: string };
    expect(new Date(started_at).toISOString()).toBe(started_at);
    expect(await begin(repeat, worker), 'its response was lost').toBe('begun');
    expect(await begin(next, takesOver)).toBe('again');
  }
});

const REFUSED = [
  { why: 'a second project', at: 'chatting', locked: true, raise: build('new'), code: 'ProjectAlreadyLocked' },
  { why: 'no project to build in', at: 'chatting', locked: false, raise: build('required'), code: 'ProjectRequired' },
  { why: 'the wrong phase', at: 'building', locked: false, raise: build('new'), code: 'InvalidTransition' },
  {
    why: 'the wrong phase before the project',
    at: 'verifying',
    locked: true,
    raise: build('new'),
    code: 'InvalidTransition',
  },
  {
    why: 'the wrong phase before the missing project',
    at: 'building',
    locked: false,
    raise: build('required'),
    code: 'InvalidTransition',
  },
] as const;

it.each(REFUSED)('S5 a tool refused for $why has written nothing', async ({ at, locked, raise, code }) => {
  const project = newId('prj');
  const session = await Session.at(at, db, locked ? { project } : {});
  const run = await calling(session);
  const before = await allButLogAndClaim(session);
  const refused = await session.beginTool(run, FIRST, 'call_1', raise);
  expect(refused).toMatchObject({
    kind: 'refused',
    code,
    ...(code === 'ProjectAlreadyLocked' && { locked_project_id: project }),
  });
  expect(await allButLogAndClaim(session)).toEqual(before);
  expect((await session.events()).at(-1)).toMatchObject({
    kind: 'refused',
    data: { tool_call_id: 'call_1', outcome: { code } },
  });
});

it('S5 a locked project is built in again', async () => {
  const project = newId('prj');
  const session = await Session.at('done', db, { project });
  const run = await calling(session);
  expect(await session.beginTool(run, FIRST, 'call_1', build('required'))).toMatchObject({
    kind: 'begun',
    phase: 'building',
  });
  expect((await session.row())['project_id']).toBe(project);
});

it('S5 outcome, todos, state, full output and transition are committed together, and pending_tool is cleared', async () => {
  const project = newId('prj');
  const session = await Session.at('building', db, { project });
  const run = await calling(session);
  await session.beginTool(run, FIRST, 'call_1', { event: 'todo_done_build', at: 'result', project: null });
  expect(await session.row()).toMatchObject({ phase: 'building', pending_tool: { tool_call_id: 'call_1' } });
  const effects = {
    event: 'todo_done_build',
    todos: [
      { name: 'test', done: false },
      { name: 'build', done: false },
      { name: 'build', done: true },
    ],
    state: [
      { scope: 'session', key: 'last', value: 1 },
      { scope: 'temp', key: 'draft', value: 'x' },
    ],
    aside: 'all of it',
  };
  const finished = await session.finishTool(run, FIRST, 'call_1', { effects });
  const events = await session.events();
  expect(finished).toEqual({
    kind: 'settled',
    ok: true,
    phase: 'verifying',
    project_id: project,
    event_seq: events.length,
  });
  expect(await session.row()).toMatchObject({ phase: 'verifying', pending_tool: null });
  expect(await todos(project)).toEqual([
    { name: 'build', done: true },
    { name: 'test', done: false },
  ]);
  expect(await session.run(run)).toMatchObject({ temp: { draft: 'x' }, progress: null });
  expect(await rows(db, 'SELECT output FROM tool_outputs WHERE session_id = $1', [session.id])).toEqual([
    { output: 'all of it' },
  ]);
  expect(events.slice(-2)).toMatchObject([
    {
      kind: 'state',
      data: {
        event: { id: 'tool:call_1', author: 'build_and_deploy', actions: { stateDelta: { last: 1 } } },
        set: { last: 1 },
        deleted: [],
      },
    },
    {
      kind: 'transition',
      data: { event: 'todo_done_build', from: 'building', to: 'verifying', tool_call_id: 'call_1' },
    },
  ]);
  expect((await session.parts(run))[0]).toMatchObject({ tool_state: 'output-available', data: { output: 'made' } });
});

it('S5 a repeated outcome gets the same result and is stored once', async () => {
  const session = await Session.at('building', db, { project: newId('prj') });
  const run = await calling(session);
  await session.beginTool(run, FIRST, 'call_1');
  const effects = { event: 'todo_done_build', state: [{ scope: 'session', key: 'k', value: 1 }] };
  const first = await session.finishTool(run, FIRST, 'call_1', { effects });
  const after = await session.everything();
  expect(await session.finishTool(run, FIRST, 'call_1', { effects })).toEqual(first);
  expect(await session.beginTool(run, SECOND, 'call_1')).toMatchObject({ kind: 'settled', phase: 'verifying' });
  expect(await session.everything()).toEqual(after);
});

it.each([
  { why: 'that failed', at: 'building', data: { state: 'output-error', errorText: 'no' } },
  { why: 'whose event has become illegal', at: 'chatting', data: {} },
] as const)('S5 a tool $why raises no event and writes nothing but its outcome', async ({ at, data }) => {
  const project = newId('prj');
  const session = await Session.at(at, db, { project });
  const run = await calling(session);
  await session.beginTool(run, FIRST, 'call_1');
  const effects = {
    event: 'todo_done_build',
    todos: [{ name: 'build', done: true }],
    state: [
      { scope: 'session', key: 'k', value: 1 },
      { scope: 'temp', key: 'k', value: 1 },
    ],
    aside: 'all of it',
  };
  expect(await session.finishTool(run, FIRST, 'call_1', { effects, data })).toMatchObject({
    kind: 'settled',
    ok: false,
    phase: at,
  });
  expect(await session.row()).toMatchObject({ phase: at, pending_tool: null });
  expect(await todos(project)).toEqual([]);
  expect(await session.run(run)).toMatchObject({ temp: null });
  expect(await rows(db, `SELECT FROM scoped_state WHERE owner = $1`, [session.id])).toEqual([]);
  expect(await rows(db, `SELECT FROM tool_outputs WHERE session_id = $1`, [session.id])).toEqual([]);
  expect((await session.parts(run))[0]).toMatchObject({ tool_state: 'output-error' });
});

it('S5 a cancel while a tool runs: the outcome is stored, its event is checked against the new phase', async () => {
  const session = await Session.at('building', db);
  const run = await calling(session, ['call_1', 'call_2']);
  await session.beginTool(run, FIRST, 'call_1', { event: 'todo_done_build', at: 'result', project: null });
  expect(await session.cancel()).toMatchObject({ cancelled: true, aborted: true, run_seq: run });
  const finished = await session.finishTool(run, FIRST, 'call_1', { effects: { event: 'todo_done_build' } });
  expect(finished).toMatchObject({ kind: 'settled', ok: false, phase: 'chatting' });
  expect(await session.beginTool(run, [0, 3, 1], 'call_2', build('new'))).toEqual({ kind: 'abort' });
  expect(await session.settleRun(run, 'aborted')).toMatchObject({ state: 'aborted' });
  expect(await phaseByLog(session)).toBe(await session.phase());
});

it('S8 after a crash pending_tool says exactly which call was in flight', async () => {
  const session = await Session.at('chatting', db);
  const run = await calling(session, ['call_1', 'call_2', 'call_3']);
  await session.beginTool(run, FIRST, 'call_1');
  await session.finishTool(run, FIRST, 'call_1');
  await session.beginTool(run, [0, 3, 1], 'call_2');
  const loaded = await session.load();
  expect(loaded).toMatchObject({ epoch: 1 });
  expect((await session.row())['pending_tool']).toMatchObject({ tool_call_id: 'call_2' });
  expect(loaded.runs[0]!['open_calls']).toEqual([
    { tool_call_id: 'call_2', name: 'build_and_deploy' },
    { tool_call_id: 'call_3', name: 'build_and_deploy' },
  ]);
});

it('K6 state is written to its scope, the last change of a key wins, and deletions work the same way', async () => {
  const session = await Session.at('chatting', db, { user: 'scoped' });
  const run = await calling(session, ['call_1', 'call_2']);
  const finish = async (ordinal: number, callId: string, state: object[]) => {
    await session.beginTool(run, [0, ordinal, 1], callId);
    await session.finishTool(run, [0, ordinal, 1], callId, { effects: { state } });
  };
  await finish(2, 'call_1', [
    { scope: 'user', key: 'theme', value: 'dark' },
    { scope: 'app', key: 'motd', value: null },
    { scope: 'session', key: 'a', value: 1 },
    { scope: 'session', key: 'a', value: { b: [2] } },
    { scope: 'temp', key: 't', value: 1 },
  ]);
  const stored = `SELECT scope, owner, key, value FROM scoped_state
                   WHERE owner IN ($1, 'scoped') OR scope = 'app' ORDER BY scope, key`;
  expect(await rows(db, stored, [session.id])).toEqual([
    { scope: 'app', owner: '', key: 'motd', value: null },
    { scope: 'session', owner: session.id, key: 'a', value: { b: [2] } },
    { scope: 'user', owner: 'scoped', key: 'theme', value: 'dark' },
  ]);
  await finish(3, 'call_2', [
    { scope: 'session', key: 'a', value: 3 },
    { scope: 'session', key: 'a' },
    { scope: 'user', key: 'theme' },
    { scope: 'app', key: 'motd' },
    { scope: 'temp', key: 't' },
  ]);
  expect(await rows(db, stored, [session.id])).toEqual([]);
  expect((await session.run(run))['temp']).toEqual({});
  await session.settleRun(run, 'aborted');
  expect((await session.run(run))['temp']).toBeNull();
});

it('K6 a result whose state another session changed meanwhile becomes a tool error, and nothing of it is stored', async () => {
  const project = newId('prj');
  const [one, two] = [
    await Session.at('building', db, { user: 'fenced', project }),
    await Session.at('chatting', db, { user: 'fenced', project }),
  ];
  const runs = [await calling(one), await calling(two)];
  await one.beginTool(runs[0]!, FIRST, 'call_1');
  await two.beginTool(runs[1]!, FIRST, 'call_1');
  const write = (value: number, seen?: number) => ({
    scope: 'user',
    key: 'n',
    value,
    ...(seen !== undefined && { seen }),
  });
  expect(await two.finishTool(runs[1]!, FIRST, 'call_1', { effects: { state: [write(1, 0)] } })).toMatchObject({
    ok: true,
  });
  const effects = {
    event: 'todo_done_build',
    todos: [{ name: 'build', done: true }],
    state: [write(2, 0), { scope: 'session', key: 'mine', value: 1 }, { scope: 'temp', key: 't', value: 1 }],
    aside: 'all of it',
  };
  const before = (await one.events()).length;
  expect(await one.finishTool(runs[0]!, FIRST, 'call_1', { effects })).toMatchObject({
    kind: 'settled',
    ok: false,
    phase: 'building',
  });
  expect((await one.parts(runs[0]))[0]).toMatchObject({
    tool_state: 'output-error',
    data: {
      errorText: 'StaleState: "user:n" was changed while the tool ran, so its changes of state were not stored.',
    },
  });
  expect(await rows(db, `SELECT key, value FROM scoped_state WHERE owner IN ('fenced', $1)`, [one.id])).toEqual([
    { key: 'n', value: 1 },
  ]);
  expect([await todos(project), (await one.run(runs[0]!))['temp'], (await one.events()).length]).toEqual([
    [],
    null,
    before,
  ]);
});

it('K6 increments of tools add to what is stored then, in every scope', async () => {
  const session = await Session.at('chatting', db, { user: 'counting' });
  const run = await calling(session, ['call_1', 'call_2', 'call_3', 'call_4']);
  const add = async (ordinal: number, callId: string, scopes: string[], by = ordinal) => {
    await session.beginTool(run, [0, ordinal, 1], callId);
    const state = scopes.map((scope) => ({ scope, key: 'n', increment: by }));
    return session.finishTool(run, [0, ordinal, 1], callId, { effects: { state } });
  };
  for (const [ordinal, callId] of [
    [2, 'call_1'],
    [3, 'call_2'],
  ] as const) {
    expect(await add(ordinal, callId, ['session', 'user', 'temp'])).toMatchObject({ ok: true });
  }
  expect(await rows(db, `SELECT value FROM scoped_state WHERE owner IN ('counting', $1)`, [session.id])).toEqual([
    { value: 5 },
    { value: 5 },
  ]);
  expect((await session.run(run))['temp']).toEqual({ n: 5 });
  await db.query(`UPDATE scoped_state SET value = to_jsonb(1.5e308) WHERE owner = 'counting'`);
  expect(await add(4, 'call_3', ['user', 'session'], 1e308)).toMatchObject({ ok: false });
  await db.query(`UPDATE scoped_state SET value = '"text"' WHERE owner = 'counting'`);
  expect(await add(5, 'call_4', ['user', 'session'])).toMatchObject({ ok: false });
  const errors = [
    'A sum in state would not be a finite number, so the changes of state were not stored.',
    'The state key "user:n" does not hold a number, so nothing was added to it.',
  ];
  expect((await session.parts(run)).slice(-2)).toMatchObject(errors.map((errorText) => ({ data: { errorText } })));
  expect(await rows(db, `SELECT value FROM scoped_state WHERE owner = $1`, [session.id])).toEqual([{ value: 5 }]);
});

it('K6 a tool adds to no `temp:` value that another call has made something else than a number meanwhile', async () => {
  const session = await Session.at('chatting', db);
  const run = await calling(session, ['call_1', 'call_2']);
  const state = ['temp', 'session'].map((scope) => ({ scope, key: 'n', increment: 1 }));
  for (const [index, n] of ['text', null].entries()) {
    const [callId, ordinal] = [`call_${index + 1}`, index + 2];
    await session.beginTool(run, [0, ordinal, 1], callId);
    await db.query('UPDATE chat_runs SET temp = $1 WHERE session_id = $2', [{ n }, session.id]);
    expect(await session.finishTool(run, [0, ordinal, 1], callId, { effects: { state } })).toMatchObject({ ok: false });
    expect((await session.run(run))['temp']).toEqual({ n });
    expect((await session.parts(run))[index]).toMatchObject({
      data: { errorText: 'The state key "temp:n" does not hold a number, so nothing was added to it.' },
    });
  }
  expect(await rows(db, 'SELECT key FROM scoped_state WHERE owner = $1', [session.id])).toEqual([]);
});

it('K5 concurrent sessions of one user that write the same keys and todos do not deadlock', async () => {
  const project = newId('prj');
  const sessions = await Promise.all(
    Array.from({ length: 6 }, () => Session.at('chatting', db, { user: 'busy', project })),
  );
  const names = Array.from({ length: 12 }, (_, index) => `name-${index}`);
  await Promise.all(
    sessions.map(async (session, offset) => {
      for (let round = 0; round < 10; round += 1) {
        const run = await calling(session);
        // Each session lists the same names in another order.
        const mine = offset % 2 ? names.toReversed() : [...names.slice(offset), ...names.slice(0, offset)];
        const effects = {
          state: mine.map((key) => ({ scope: 'user', key, value: { round, offset } })),
          todos: mine.map((name) => ({ name, done: round % 2 === 0 })),
        };
        await session.beginTool(run, FIRST, 'call_1');
        const finished: Answer = await session.finishTool(run, FIRST, 'call_1', { effects });
        expect(finished).toMatchObject({ kind: 'settled', ok: true });
        await session.settleRun(run, 'aborted');
        await db.query('UPDATE chat_parts SET tool_call_id = id WHERE session_id = $1 AND tool_call_id IS NOT NULL', [
          session.id,
        ]);
      }
    }),
  );
  expect(await rows(db, `SELECT key FROM scoped_state WHERE scope = 'user' AND owner = 'busy'`)).toHaveLength(
    names.length,
  );
});

it('S5 a call that does not belong to the run is neither started nor finished', async () => {
  const session = await Session.at('chatting', db);
  const first = await calling(session);
  await session.settleRun(first, 'aborted');
  const second = await calling(session, ['call_2']);
  const before = await session.everything();
  for (const callId of ['call_1', 'call_9']) {
    expect(await session.beginTool(second, FIRST, callId, build('new'))).toEqual({ kind: 'lost' });
    expect(await session.finishTool(second, STEP, callId, { effects: { event: 'start_build' } })).toEqual({
      kind: 'lost',
    });
  }
  expect(await session.everything()).toEqual(before);
});

it('K1 the state that a tool call loads is bounded, whatever its total size', async () => {
  const session = await Session.at('chatting', db, { user: 'hoarder' });
  const run = await calling(session);
  const load = async () => {
    const [row] = await rows(
      db,
      `SELECT octet_length(loaded::text) AS bytes, loaded -> 'incomplete_state' AS incomplete
         FROM load_tool_call($1, $2, 'call_1') AS loaded`,
      [session.id, run],
    );
    return row!;
  };
  const put = (scope: string, owner: string, keys: number, repeat: number) =>
    db.query(
      `INSERT INTO scoped_state (scope, owner, key, value)
       SELECT $1, $2, 'key-' || n, to_jsonb(n || (SELECT string_agg(md5(m::text), '') FROM generate_series(1, $4::int) AS m))
         FROM generate_series(1, $3::int) AS n`,
      [scope, owner, keys, repeat],
    );
  const empty = await load();
  expect(empty['incomplete']).toEqual([]);
  await put('session', session.id, 1, 100);
  expect((await load())['incomplete']).toEqual([]);
  await put('user', session.user, 2_000, 300);
  await put('app', '', 2, 20_000);
  const { rows: size } = await db.query<{ bytes: number }>(
    'SELECT sum(pg_column_size(value)) AS bytes FROM scoped_state',
  );
  expect(size[0]!.bytes).toBeGreaterThan(15_000_000);
  const full = await load();
  expect(full['incomplete']).toEqual(['app', 'user']);
  expect(Number(full['bytes']) - Number(empty['bytes'])).toBeLessThan(300_000);
  await db.query(`DELETE FROM scoped_state WHERE scope = 'app'`);
});
