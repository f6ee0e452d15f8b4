// Agents that work on initiatives: the tools of their roles, what their prompts say, and the limits of their context.
import { mkdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { defineAgent } from '../../agent/definition/define.ts';
import { INITIATIVE_ROLES, type InitiativeRole } from '../../agent/initiatives/initiative-tools.ts';
import type { PerdureClient } from '../../client/client.ts';
import { createClient } from '../../client/client.ts';
import { readInitiativeMark, resetStale } from '../../store/initiative-workflows.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { planned } from '../../tools/test-kit/initiative.ts';
import { callTool, type ModelAction, report, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { initiativeCalls } from '../../worker/initiative-calls.ts';
import { userFolder } from '../../workspaces/paths.ts';

const agentOf = (role: InitiativeRole) =>
  defineAgent({
    ...{ id: role, description: `A ${role}.`, mode: 'primary', prompt: `You are the ${role}.` },
    ...{ tools: [], initiative: role, instructions: false },
  });

let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  const agents = (['worker', 'architect', 'verifier', 'orchestrator'] as const).map((role) => agentOf(role));
  agents.push(defineAgent({ ...agentOf('worker'), id: 'early', compaction: { compact_at: 0.75 } }));
  agents.push(defineAgent({ ...agentOf('worker'), id: 'tight', compaction: { compact_at: 0.4 } }));
  runtime = await startRuntime({ agents, catalog: { 'openai/test': { context_limit: 10_000, max_output: 1_000 } } });
  client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
});

const create = async (user = 'ada') =>
  (await client.initiatives.create(user, planned([['one', 'two']]))).initiative.initiative_id;

async function join(id: string, role: InitiativeRole = 'worker', user = 'ada') {
  const { session } = await client.openSession(user, { agent: role, metadata: { initiative_id: id } });
  return TestSession.of(runtime, session.session_id);
}

/** What the supervisor does when the work session that is due first has been silent for long enough. */
async function crash(id: string): Promise<void> {
  const now = { staleAssignmentMs: 0, staleProgressMs: 0 };
  const { watched } = (await readInitiativeMark(runtime.db, id, now))!;
  await resetStale(runtime.db, id, watched!, now);
}

type Call = readonly [name: string, input: object | ((outputs: readonly unknown[]) => object)];

type Usage = Parameters<typeof report>[0];

/**
 * Plays a turn whose model makes these calls, one a step, and says how much it has used, each time or at each of them.
 * Returns their outputs, or the texts of their errors.
 */
async function play(
  session: TestSession,
  calls: readonly Call[],
  usage?: Usage | readonly Usage[],
): Promise<unknown[]> {
  runtime.model.script((request): ModelAction[] => {
    const after = request.messages.slice(request.messages.findLastIndex(({ role }) => role === 'user') + 1);
    const outputs = after.flatMap(({ role, content }) => (role === 'tool' ? [parsed(content)] : []));
    const next = calls[outputs.length];
    if (next === undefined) return [say('done')];
    const [name, input] = next;
    const action = callTool(
      `call_${outputs.length}`,
      name,
      typeof input === 'function' ? input(outputs) : input,
      1_000,
    );
    const used = Array.isArray(usage) ? (usage[outputs.length] as Usage) : (usage as Usage | undefined);
    return used === undefined ? [action] : [action, report(used)];
  });
  const { answer_id, state, error_message } = await session.ended(await session.send('go'));
  expect([state, error_message]).toEqual(['finished', null]);
  const parts = await session.parts(answer_id);
  return parts.filter((part) => 'toolCallId' in part).map((part) => part['output'] ?? part['errorText']);
}

function parsed(content: unknown): unknown {
  try {
    return JSON.parse(String(content));
  } catch {
    return content;
  }
}

const toolsOf = () => (runtime.model.requests.at(-1)!.body.tools ?? []).map(({ function: { name } }) => name);

it.each(INITIATIVE_ROLES)(
  'I7 a session of the role %s is offered the tools that the documentation lists',
  async (role) => {
    const page = await readFile(path.join(import.meta.dirname, '..', '..', 'docs', 'initiatives.md'), 'utf8');
    const [, row] = new RegExp(`^\\| \`${role}\` +\\|(.*)\\|$`, 'm').exec(page)!;
    await play(await join(await create(), role), []);
    expect(toolsOf().toSorted()).toEqual(row!.match(/\w+/g)!.toSorted());
  },
);

it('I7 a call of another role’s tool is an error that the model sees, and nothing changes', async () => {
  const id = await create();
  await client.initiatives.addBlocker('ada', id, { description: 'no tea', affects: [] });
  const before = await client.initiatives.get('ada', id);
  const [error] = await play(await join(id), [['blocker_resolve', { blocker: 'block-001', resolution: 'mine' }]]);
  expect(error).toMatch(/blocker_resolve.*blocker_bypass/);
  expect(runtime.model.requests.at(-1)!.body.messages.at(-1)).toMatchObject({ role: 'tool', content: error });
  expect(await client.initiatives.get('ada', id)).toEqual(before);
});

it('I7 an architect goes on with what it has created, in the project of its session', async () => {
  const project = 'tea-room';
  const { session: opened } = await client.openSession('ada', { agent: 'architect', project_id: project });
  const session = TestSession.of(runtime, opened.session_id);
  const outputs = await play(session, [
    ['initiative_create', planned([['one']], 'A tea room')],
    ['decision_add', { context: 'Colour', decision: 'green', reason: 'tea' }],
    ['initiative_create', planned([['other']], 'Another one')],
    ['state_update', { next_action: 'Begin.' }],
  ]);
  const { initiative } = outputs[0] as { initiative: { initiative_id: string } };
  const { initiative: now, decisions } = await client.initiatives.get('ada', initiative.initiative_id);
  expect(now).toMatchObject({ title: 'A tea room', project_id: project, next_action: 'Begin.' });
  expect(decisions).toMatchObject([{ decision: 'green' }]);
  await play(session, []);
  expect(JSON.stringify(runtime.model.requests.at(-1)!.body.messages[0])).toContain('Title: A tea room');
});

it('I7 what an architect creates has the folder of its session', async () => {
  const session = await TestSession.open(runtime, { agent: 'architect' });
  const folder = path.join(userFolder(runtime.workspaces, 'ada'), 'tea-house');
  await runtime.db.query('UPDATE chat_sessions SET workspace_root = $2 WHERE session_id = $1', [session.id, folder]);
  const [made] = await play(session, [['initiative_create', planned([['one']])]]);
  const { initiative } = made as { initiative: { initiative_id: string } };
  expect((await client.initiatives.get('ada', initiative.initiative_id)).initiative).toMatchObject({
    ...{ project_id: null, workspace_root: folder },
  });
});

it('I7 what an architect creates beside the initiative of its session does not share its folder', async () => {
  const [made] = await play(await join(await create(), 'architect'), [['initiative_create', planned([['other']])]]);
  const { initiative } = made as { initiative: { initiative_id: string } };
  expect((await client.initiatives.get('ada', initiative.initiative_id)).initiative.workspace_root).toBeNull();
});

it('I4 I7 a worker reads tasks, blockers and what to review, however long all else is', async () => {
  const plan = planned([['one', 'two']]);
  plan.phases[0]!.plans[0] = { ...plan.phases[0]!.plans[0]!, ...{ body: 'x'.repeat(200_000) } };
  const { initiative_id: id } = (await client.initiatives.create('ada', plan)).initiative;
  await client.initiatives.addBlocker('ada', id, { description: 'no tea', affects: [] });
  await client.initiatives.updateState('ada', id, { resume_context: { files_modified_this_session: ['gone.ts'] } });
  const [read] = await play(await join(id), [['initiative_read', {}]]);
  expect(read).toMatchObject({
    plan: { tasks: [{ name: 'one' }, { name: 'two' }], body: expect.stringContaining('xxx') as string },
    blockers: [{ description: 'no tea' }],
    review: [{ entry: 'gone.ts' }],
  });
});

it('I7 a worker reads the state, works through its tasks, and ends its work session', async () => {
  const id = await create();
  const session = await join(id);
  const task = (at: number) => (outputs: readonly unknown[]) => ({
    task_id: (outputs[at] as { task_id: string }).task_id,
  });
  const outputs = await play(session, [
    ['initiative_read', {}],
    ['task_next', {}],
    ['task_start', task(1)],
    ['task_progress', (all) => ({ ...task(1)(all), note: 'half' })],
    ['decision_add', { context: 'c', decision: 'd', reason: 'r' }],
    ['task_complete', (all) => ({ ...task(1)(all), note: 'done otherwise' })],
    ['blocker_add', { description: 'no tea', affects: [] }],
    ['blocker_bypass', { blocker: 'block-001', workaround: 'water', workaround_tasks: ['tea later'] }],
    ['state_update', { next_action: 'Go on.', resume_context: { open_questions: ['why?'] } }],
    ['session_end', { notes: 'went well' }],
  ]);
  expect(outputs[0]).toMatchObject({ message: 'Resuming from Phase 1, Plan 1, Task: one', review: null });
  expect(outputs[1]).toMatchObject({ name: 'one', assigned_to: 'session-001' });
  const { state, sessions, decisions, blockers, initiative, phases } = await client.initiatives.get('ada', id);
  expect(sessions).toMatchObject([
    {
      agent: 'worker',
      session_id: session.id,
      status: 'ended',
      completed: ['Phase 1, Plan 1: one'],
      notes: 'went well',
    },
  ]);
  expect([decisions.length, blockers[0]?.status, initiative.next_action]).toEqual([1, 'bypassed', 'Go on.']);
  expect(state.position.task).toBe('two');
  expect(phases[0]?.plans[0]?.tasks.map(({ name, note }) => [name, note])).toEqual([
    ['one', 'done otherwise'],
    ['two', null],
    ['tea later', null],
  ]);
});

it('U2 H2 a repeated tool call gets its first outcome, although its work session has ended meanwhile', async () => {
  const id = await create();
  const { id: sessionId } = await join(id);
  const call = (toolCallId: string) =>
    initiativeCalls(client.initiatives, runtime.db, {
      ...{ userId: 'ada', sessionId, agent: 'worker', initiativeId: id, toolCallId },
      ...{ maxOutputBytes: 32_768, projectId: null, workspaceRoot: null },
    });
  const { task_id } = (await call('call_1').task_next({})) as { task_id: string };
  await call('call_2').task_start({ task_id });
  const done = await call('call_3').task_complete({ task_id, note: 'done' });
  const ended = await call('call_4').session_end({});
  expect(await call('call_3').task_complete({ task_id, note: 'done' })).toEqual(done);
  expect(await call('call_1').task_next({})).toMatchObject({ task_id, work_session: { id: 'session-001' } });
  expect(await call('call_4').session_end({})).toEqual(ended);
  await call('call_5').initiative_read({}, 'verifier');
  await call('call_6').session_end({});
  await call('call_5').initiative_read({}, 'verifier');
  expect((await client.initiatives.get('ada', id)).sessions).toMatchObject([{ status: 'ended' }, { status: 'ended' }]);
});

it('I4 I7 nobody is given a task while a file is missing that the state names; a verifier accepts that', async () => {
  const id = await create();
  const worker = await join(id);
  const missing = { resume_context: { files_modified_this_session: ['gone.ts'] } };
  await client.initiatives.updateState('ada', id, missing);
  const read = async () => (await play(worker, [['initiative_read', {}]]))[0];
  expect(await read()).toMatchObject({ review: [{ entry: 'gone.ts' }] });
  expect(await play(worker, [['task_next', {}]])).toEqual([expect.stringContaining('ReviewRequired')]);
  expect((await client.initiatives.get('ada', id)).sessions).toEqual([]);
  const [, unseen] = await play(await join(id, 'verifier'), [
    ['review', { note: 'nothing was read', seen: [] }],
    ['initiative_read', {}],
    ['review', { note: 'it was renamed' }],
  ]);
  expect(unseen).toMatchObject({ review: [{ entry: 'gone.ts' }] });
  expect(await read()).toMatchObject({ review: null });
  expect(await play(worker, [['task_next', {}]])).toMatchObject([{ name: 'one' }]);
  // Each work session begins with a look.
  await play(worker, [['session_end', {}]]);
  await client.initiatives.updateState('ada', id, { resume_context: { files_modified_this_session: ['lost.ts'] } });
  expect(await play(worker, [['task_next', {}]])).toEqual([expect.stringContaining('ReviewRequired')]);
});

it('I4 a worker whose workspace cannot be checked is given no task, however often it asks', async () => {
  const id = await create();
  const worker = await join(id);
  await client.initiatives.updateState('ada', id, { resume_context: { files_modified_this_session: ['passwd'] } });
  const home = userFolder(runtime.workspaces, 'ada');
  await mkdir(home, { recursive: true });
  await symlink('/etc', path.join(home, id));
  const refused = expect.stringMatching(/^WorkspaceNotUsable/) as string;
  const asks: Call[] = [
    ['task_next', {}],
    ['task_next', {}],
  ];
  expect(await play(worker, asks)).toEqual([refused, refused]);
  expect(await play(await join(id, 'verifier'), [['initiative_read', {}]])).toEqual([refused]);
  expect((await client.initiatives.get('ada', id)).sessions).toEqual([]);
});

it('I6 I7 a late worker is refused and changes nothing, and the next one is told of the crash', async () => {
  const id = await create();
  const [late, next] = [await join(id), await join(id)];
  const [given] = await play(late, [['task_next', {}]]);
  const { task_id } = given as { task_id: string };
  await play(late, [['task_start', { task_id }]]);
  await crash(id);
  const view = await client.initiatives.get('ada', id);
  expect(view.sessions).toMatchObject([{ status: 'crashed' }]);
  const errors = await play(late, [
    ['task_progress', { task_id, note: 'still here' }],
    ['task_complete', { task_id, note: 'done' }],
    ['task_start', { task_id: 'tsk_none' }],
  ]);
  expect(errors.map((error) => String(error).split(':')[0])).toEqual(['TaskAssigned', 'TaskAssigned', 'TaskNotFound']);
  expect(await client.initiatives.get('ada', id)).toEqual(view);
  const [read, taken] = await play(next, [
    ['initiative_read', {}],
    ['task_next', {}],
  ]);
  expect(read).toMatchObject({
    message: 'Resuming from Phase 1, Plan 1, Task: one',
    last_sessions: [
      {
        ...{ id: 'session-001', session_id: late.id, status: 'crashed', notes: 'Agent unresponsive, task reset' },
        working_on: 'Phase 1, Plan 1: one',
      },
    ],
  });
  expect(taken).toMatchObject({
    task_id,
    assigned_to: 'session-002',
    work_session: { id: 'session-002', notes: 'Resuming from session-001 crash' },
  });
  expect(await play(late, [['task_complete', { task_id }]])).toEqual([expect.stringMatching(/^TaskAssigned/)]);
  expect((await client.initiatives.get('ada', id)).sessions).toHaveLength(2);
});

it('I7 the next worker reads why the last ones have handed off, their notes and their issues', async () => {
  const id = await create();
  const handoff = { notes: 'one is half done', issues: ['no key'], handoff_reason: 'needs another model' };
  const end = { notes: 'two is another matter' };
  const [first, second] = [await join(id), await join(id)];
  await play(first, [['task_next', {}]]);
  await play(second, [['task_next', {}]]);
  await play(first, [['session_end', handoff]]);
  // The limit of its context was not the reason.
  expect(JSON.stringify(runtime.model.requests.at(-1)!.body.messages.at(-1))).not.toContain('limit');
  await play(second, [['session_end', end]]);
  const [read, taken] = await play(await join(id), [
    ['initiative_read', {}],
    ['task_next', {}],
  ]);
  expect(read).toMatchObject({
    last_sessions: [
      { id: 'session-002', status: 'ended', ...end },
      { id: 'session-001', status: 'ended', ...handoff },
    ],
  });
  expect(taken).toMatchObject({ name: 'one', work_session: { id: 'session-003', notes: null } });
});

it('I7 a worker that asks again gets the task that it has not started; without a task it has no work session', async () => {
  const id = await create();
  const [session, other] = [await join(id), await join(id)];
  const next = async (of = session) => (await play(of, [['task_next', {}]]))[0] as { task_id: string; name: string };
  const { task_id } = await next();
  expect(await next()).toMatchObject({ name: 'one', assigned_to: 'session-001' });
  await play(session, [['task_start', { task_id }]]);
  expect((await next()).name).toBe('two');
  // Null, which `play` does not tell from none.
  expect(await next(other)).toBeUndefined();
  expect((await client.initiatives.get('ada', id)).sessions).toHaveLength(1);
});

it.each(['architect', 'verifier', 'orchestrator'] as const)(
  'I7 a session of the role %s has one work session from its reading on, and takes no note of a crash',
  async (role) => {
    const id = await create();
    await play(await join(id), [['task_next', {}]]);
    await crash(id);
    const session = await join(id, role);
    const calls: Call[] = [
      ['initiative_read', {}],
      ['initiative_read', {}],
      ['session_end', { issues: ['no tea'], notes: 'looked around' }],
    ];
    await play(session, calls, { input: 5_500, output: 10 });
    const { sessions } = await client.initiatives.get('ada', id);
    expect(sessions.slice(1)).toMatchObject([
      {
        ...{ agent: role, session_id: session.id, status: 'ended', notes: 'looked around' },
        // Its end says nothing of it.
        context_usage: expect.closeTo(0.62, 1) as number,
        issues: ['More than half of the context was used', 'no tea'],
      },
    ]);
    const [taken] = await play(await join(id), [['task_next', {}]]);
    expect(taken).toMatchObject({ work_session: { id: 'session-003', notes: 'Resuming from session-001 crash' } });
  },
);

it('I7 refusals are tool errors with their code, and change nothing', async () => {
  const id = await create();
  const [one, two] = [await join(id), await join(id)];
  const [given] = await play(one, [['task_next', {}]]);
  const { task_id } = given as { task_id: string };
  const before = await client.initiatives.get('ada', id);
  const errors = await play(two, [
    ['task_complete', { task_id }],
    ['task_progress', { task_id, note: 'mine' }],
    ['task_start', { task_id }],
    ['task_start', { task_id: 'tsk_none' }],
    ['state_update', { position: { phase: 1, plan: 1, task: 'three' } }],
    ['state_update', { resume_context: { files_modified_this_session: ['../x'] } }],
    ['state_update', { position: { phase: 1, plan: 7, task: 'one' } }],
    ['blocker_bypass', { blocker: 'block-009', workaround: 'w' }],
  ]);
  expect(errors.map((error) => String(error).split(':')[0])).toEqual([
    ...[
      'TaskAssigned',
      'TaskAssigned',
      'TaskAssigned',
      'TaskNotFound',
      'BadRequest',
      'BadRequest',
      'BadRequest',
      'BlockerNotFound',
    ],
  ]);
  expect(errors[6]).toContain('position.plan');
  expect(await client.initiatives.get('ada', id)).toEqual(before);
  const resolve: Call = ['blocker_resolve', { blocker: 'block-001', resolution: 'r' }];
  const add: Call = ['blocker_add', { description: 'no tea', affects: [] }];
  const [, resolved, again] = await play(await join(id, 'orchestrator'), [add, resolve, resolve]);
  expect([resolved, again]).toMatchObject([
    { blocker: { status: 'resolved' } },
    expect.stringMatching(/^BlockerResolved/),
  ]);
  expect((await client.initiatives.get('ada', id)).phases).toEqual(before.phases);
});

it('Q3 another user’s initiative cannot be joined, and a session that names it gets nothing of it', async () => {
  const id = await create('eve');
  await expect(join(id)).rejects.toMatchObject({ code: 'InitiativeNotFound' });
  const bad = client.openSession('ada', { agent: 'worker', metadata: { initiative_id: 5 } });
  await expect(bad).rejects.toMatchObject({ code: 'BadRequest' });
  const theirs = await client.initiatives.get('eve', id);
  const { task_id } = theirs.phases[0]!.plans[0]!.tasks[0]!;
  const own = await create();
  const everybodys: Call[] = [
    ['initiative_read', {}],
    ['state_update', { next_action: 'mine' }],
    ['blocker_add', { description: 'd', affects: [] }],
  ];
  const calls: Record<InitiativeRole, Call[]> = {
    architect: [...everybodys, ['decision_add', { context: 'c', decision: 'd', reason: 'r' }]],
    worker: [
      ['task_next', {}],
      ['task_start', { task_id }],
      ['task_progress', { task_id }],
      ['task_complete', { task_id }],
      ['session_end', {}],
    ],
    verifier: [['review', { note: 'n' }]],
    orchestrator: [
      ['blocker_bypass', { blocker: 'block-001', workaround: 'w' }],
      ['blocker_resolve', { blocker: 'block-001', resolution: 'r' }],
    ],
  };
  for (const [role, asked] of Object.entries(calls) as [InitiativeRole, Call[]][]) {
    const session = await join(own, role);
    await runtime.db.query(
      `UPDATE chat_sessions SET metadata = jsonb_build_object('initiative_id', $2::text) WHERE session_id = $1`,
      [session.id, id],
    );
    const outputs = await play(session, asked);
    expect(outputs).toHaveLength(asked.length);
    for (const [at, output] of outputs.entries()) {
      // A session without a work session has none to end.
      expect(output, asked[at]![0]).toMatch(asked[at]![0] === 'session_end' ? /NotFound/ : /^InitiativeNotFound/);
    }
    expect(JSON.stringify(runtime.model.requests.at(-1)!.body.messages[0])).not.toContain('An initiative');
  }
  expect(await client.initiatives.get('eve', id)).toEqual(theirs);
});

it('I7 P1 its prompt has position, decisions and active blockers, the same within a turn', async () => {
  const id = await create();
  await client.initiatives.addDecision('ada', id, { context: 'Colour', decision: 'green', reason: 'tea' });
  const session = await join(id);
  const from = runtime.model.requests.length;
  await play(session, [
    ['decision_add', { context: 'Cups', decision: 'big', reason: 'thirst' }],
    ['blocker_add', { description: 'no water', affects: [] }],
  ]);
  const systems = runtime.model.requests.slice(from).map(({ body }) => JSON.stringify(body.messages[0]?.content));
  expect(systems.length).toBe(3);
  expect(new Set(systems).size).toBe(1);
  expect(systems[0]).toContain('Task: one (open)');
  expect(systems[0]).toContain('Colour: green (tea)');
  expect(systems[0]).not.toContain('Cups');
  await play(session, []);
  const next = JSON.stringify(runtime.model.requests.at(-1)!.body.messages[0]?.content);
  expect(next).toContain('Cups: big (thirst)');
  expect(next).toContain('block-001: no water');
});

it('I7 a tool call that is repeated after a crash has been carried out once', async () => {
  const id = await create();
  const session = await join(id, 'architect');
  await play(session, [['decision_add', { context: 'c', decision: 'd', reason: 'r' }]]);
  const { decisions } = await client.initiatives.get('ada', id);
  expect(decisions).toHaveLength(1);
  const { rows } = await runtime.db.query<{ command_id: string }>(
    `SELECT command_id FROM initiative_events WHERE initiative_id = $1 AND kind = 'decision_made'`,
    [id],
  );
  expect(rows[0]?.command_id).toMatch(/^add_decision:call_/);
});

it('I7 U4 half of the context in use is noted, and at its limit the work session is handed off', async () => {
  const id = await create();
  const session = await join(id);
  const noted = async () => (await client.initiatives.get('ada', id)).sessions[0]!;
  await play(session, [['task_next', {}]], { input: 4_200, output: 10 });
  expect(await noted()).toMatchObject({ status: 'active', issues: [], context_usage: null });
  await play(
    session,
    [
      ['task_next', {}],
      ['decision_add', { context: 'c', decision: 'd', reason: 'r' }],
    ],
    { input: 4_700, output: 10 },
  );
  const events = `SELECT FROM initiative_events WHERE initiative_id = $1 AND kind = 'context_noted'`;
  expect((await runtime.db.query(events, [id])).rowCount).toBe(1);
  expect(await noted()).toMatchObject({ status: 'active', issues: ['More than half of the context was used'] });
  const { context_usage: half } = await noted();
  expect(half).toBeGreaterThan(0.5);
  await play(session, [['task_next', {}]], { input: 7_000, output: 10 });
  // What is in use is shown as it is, not as it was when half was reached.
  expect((await noted()).context_usage).toBeGreaterThan(half! + 0.1);
  // Less than half, too, once it was noted.
  await play(session, [['task_next', {}]], { input: 2_000, output: 10 });
  expect((await noted()).context_usage).toBeLessThan(0.4);
  await play(
    session,
    [
      ['task_next', {}],
      ['task_next', {}],
    ],
    { input: 9_500, output: 10 },
  );
  const over = await eventually(async () => {
    const found = (await client.initiatives.get('ada', id)).sessions;
    expect(found[0]?.status).toBe('ended');
    return found;
  });
  expect(over[0]).toMatchObject({
    handoff_reason: 'Context limit reached',
    issues: ['More than half of the context was used'],
    context_usage: 1,
  });
});

it('I7 U4 a work session is handed off, too, where a turn begins with a compaction', async () => {
  const id = await create();
  const session = await join(id);
  await play(session, [['task_next', {}]]);
  for (let n = 0; n < 3; n += 1) await play(session, []);
  runtime.model.script(() => [say('done'), report({ input: 9_500, output: 10 })]);
  await session.ended(await session.send('go'));
  expect((await client.initiatives.get('ada', id)).sessions).toMatchObject([{ status: 'active' }]);
  await play(session, []);
  expect((await client.initiatives.get('ada', id)).sessions).toMatchObject([
    { status: 'ended', handoff_reason: 'Context limit reached' },
  ]);
});

it('I7 after the limit a verifier has another work session once it reads again', async () => {
  const id = await create();
  const session = await join(id, 'verifier');
  await play(session, [['initiative_read', {}]], { input: 9_500, output: 10 });
  const states = async () => (await client.initiatives.get('ada', id)).sessions.map(({ status }) => status);
  expect(await states()).toEqual(['ended']);
  await play(session, [['initiative_read', {}]], { input: 100, output: 10 });
  expect(await states()).toEqual(['ended', 'active']);
});

it('I7 U4 the limit is where the agent’s conversation is compacted', async () => {
  const id = await create();
  const { session } = await client.openSession('ada', { agent: 'early', metadata: { initiative_id: id } });
  await play(TestSession.of(runtime, session.session_id), [['task_next', {}]], { input: 7_000, output: 10 });
  expect((await client.initiatives.get('ada', id)).sessions).toMatchObject([
    { status: 'ended', handoff_reason: 'Context limit reached', context_usage: expect.closeTo(0.79, 1) as number },
  ]);
});

it('I7 U4 also where the limit is less than half', async () => {
  const id = await create();
  const { session } = await client.openSession('ada', { agent: 'tight', metadata: { initiative_id: id } });
  await play(TestSession.of(runtime, session.session_id), [['task_next', {}]], { input: 3_800, output: 10 });
  expect((await client.initiatives.get('ada', id)).sessions).toMatchObject([
    { status: 'ended', handoff_reason: 'Context limit reached', issues: [] },
  ]);
});

it('I7 a context that was made shorter within a tenth can be full again', async () => {
  const id = await create();
  const { session } = await client.openSession('ada', { agent: 'early', metadata: { initiative_id: id } });
  const chat = TestSession.of(runtime, session.session_id);
  const reasons = async () =>
    (await client.initiatives.get('ada', id)).sessions.map(({ handoff_reason }) => handoff_reason);
  const used = [7_000, 7_000, 6_350, 7_000].map((input) => ({ input, output: 10 }));
  await play(
    chat,
    used.map(() => ['task_next', {}]),
    used,
  );
  expect(await reasons()).toEqual(['Context limit reached', 'Context limit reached']);
});

it('I7 in a context that nothing has made shorter since, the next work sessions keep their tasks', async () => {
  const id = await create();
  const taskOf = (n: number) => (outputs: readonly unknown[]) => ({
    task_id: (outputs[n] as { task_id: string }).task_id,
  });
  const session = await join(id);
  const full = { input: 9_100, output: 10 };
  const calls: Call[] = [
    ['task_next', {}],
    ['task_next', {}],
    ['task_start', taskOf(0)],
    ['task_complete', taskOf(0)],
    ['session_end', {}],
    ['task_next', {}],
    ['task_start', taskOf(5)],
  ];
  expect(await play(session, calls, full)).toMatchObject([
    { name: 'one', assigned_to: 'session-001' },
    { name: 'one', assigned_to: 'session-002' },
    { name: 'one', status: 'in_progress' },
    { name: 'one', status: 'completed' },
    { session: { id: 'session-002' } },
    { name: 'two', assigned_to: 'session-003' },
    { name: 'two', status: 'in_progress' },
  ]);
  const reasons = async () =>
    (await client.initiatives.get('ada', id)).sessions.map(({ handoff_reason }) => handoff_reason);
  expect(await reasons()).toEqual(['Context limit reached', null, null]);
  const read: Call = ['initiative_read', {}];
  await play(session, [read], { input: 2_000, output: 10 });
  await play(session, [read], full);
  expect(await reasons()).toEqual(['Context limit reached', null, 'Context limit reached']);
});

it('I7 at the limit the model is told in mid-turn: its tasks are others’, and its next task begins another work session', async () => {
  const id = await create();
  const [one, two] = [await join(id), await join(id)];
  const told = () => {
    const { role, content } = runtime.model.requests.at(-1)!.body.messages.at(-1)!;
    return [role, JSON.stringify(content).includes('session-001 has ended')];
  };
  expect(await play(one, [['task_next', {}]], { input: 9_500, output: 10 })).toMatchObject([
    { name: 'one', assigned_to: 'session-001' },
  ]);
  expect(told()).toEqual(['tool', true]);
  const { sessions, phases } = await client.initiatives.get('ada', id);
  expect(sessions).toMatchObject([{ status: 'ended', handoff_reason: 'Context limit reached' }]);
  expect(phases[0]!.plans[0]!.tasks).toMatchObject([
    { name: 'one', status: 'open', assigned_to: null },
    { name: 'two', status: 'open', assigned_to: null },
  ]);
  expect(await play(two, [['task_next', {}]])).toMatchObject([{ name: 'one', assigned_to: 'session-002' }]);
  // It has no work session yet.
  await play(one, []);
  expect(told()).toEqual(['user', true]);
  expect(await play(one, [['task_next', {}]], { input: 100, output: 10 })).toMatchObject([
    { name: 'two', assigned_to: 'session-003' },
  ]);
  expect(told()).toEqual(['tool', false]);
});
