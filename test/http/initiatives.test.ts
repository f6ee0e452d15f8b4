// Initiatives over HTTP: creation, commands, STATE.md, and that they are their owner's only.
import { gunzipSync } from 'node:zlib';
import { unpackTar } from 'modern-tar';
import { beforeAll, expect, it } from 'vitest';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { requestTo, routesOf } from '../attacks/routes.ts';

let host: TestHost;
let ada: TestCaller;
let eve: TestCaller;

beforeAll(async () => {
  host = await startHost({ databaseUrl: await freshDatabase() });
  ada = host.as('ada');
  eve = host.as('eve');
});

const PLAN = {
  title: 'A site about tea',
  next_action: 'Begin.\n',
  phases: [
    {
      name: 'Design',
      plans: [{ name: 'Pages', body: '# Pages', tasks: [{ name: 'Draw' }, { name: 'Choose: "green"' }] }],
    },
    { name: 'Build', plans: [{ name: 'Write', tasks: [{ name: 'Write it', wave: 2 }] }] },
  ],
  decisions: [{ context: 'Colour', decision: 'green', reason: 'tea' }],
};

/** The path of a new initiative of Ada's. */
async function created(): Promise<string> {
  const { status, body, headers } = await ada.post('/api/initiatives', PLAN);
  expect([status, headers.get('location')]).toEqual([201, `/api/initiatives/${body.initiative.initiative_id}`]);
  return `/api/initiatives/${body.initiative.initiative_id}`;
}

/** The ids of its tasks, in their order. */
async function tasksOf(at: string): Promise<string[]> {
  const { phases } = (await ada.get(at)).body as { phases: { plans: { tasks: { task_id: string }[] }[] }[] };
  return phases.flatMap(({ plans }) => plans.flatMap(({ tasks }) => tasks.map(({ task_id }) => task_id)));
}

async function stateFile(at: string): Promise<{ text: string; etag: string }> {
  const response = await ada.fetch(`${at}/STATE.md`);
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/markdown; charset=utf-8']);
  return { text: await response.text(), etag: response.headers.get('etag') ?? '' };
}

/** Two work sessions, of which one is at work on the first task, and a resolved blocker. */
async function atWork(at: string): Promise<{ worker: string; other: string; task_id: string }> {
  const worker = (await ada.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;
  const other = (await ada.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;
  const { task_id } = (await ada.post(`${at}/tasks/next`, { work_session: worker })).body;
  await ada.post(`${at}/tasks/${task_id}/start`, { work_session: worker });
  await ada.post(`${at}/blockers`, { description: 'No pens', affects: [] });
  await ada.post(`${at}/blockers/block-001/resolve`, { resolution: 'pens' });
  return { worker, other, task_id };
}

/** All that an initiative shows. */
async function shown(at: string): Promise<object> {
  return { view: (await ada.get(at)).body as object, ...(await stateFile(at)) };
}

async function put(at: string, body: string, etag?: string, caller = ada) {
  const headers = { 'content-type': 'text/markdown', ...(etag !== undefined && { 'if-match': etag }) };
  const response = await caller.fetch(`${at}/STATE.md`, { method: 'PUT', headers, body });
  const text = await response.text();
  const problem = response.headers.get('content-type') === 'application/problem+json';
  return {
    status: response.status,
    text,
    etag: response.headers.get('etag'),
    ...(problem && (JSON.parse(text) as { code: string; errors?: { field: string; expected: string }[] })),
  };
}

it('H12 an initiative is worked on to its end over HTTP', async () => {
  const at = await created();
  const { body } = await ada.get(at);
  expect(body).toMatchObject({
    initiative: { title: PLAN.title, status: 'active', next_action: 'Begin.\n' },
    state: { position: { phase: 1, phase_name: 'Design', plan: 1, task: 'Draw', wave: 1, status: 'open' } },
    decisions: [{ decision: 'green', alternatives_considered: [], reversible: null }],
    blockers: [],
    sessions: [],
  });
  const started = await ada.post(`${at}/sessions`, { agent: 'worker' }, { 'idempotency-key': 'one' });
  expect(await ada.post(`${at}/sessions`, { agent: 'worker' }, { 'idempotency-key': 'one' })).toMatchObject({
    body: started.body as object,
  });
  const work_session = started.body.session.id as string;
  expect(work_session).toBe('session-001');
  const other = (await ada.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;
  for (;;) {
    const next = await ada.fetch(`${at}/tasks/next`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ work_session }),
    });
    if (next.status === 204) break;
    const { task_id } = (await next.json()) as { task_id: string };
    const task = `${at}/tasks/${task_id}`;
    expect((await ada.post(`${task}/start`, { work_session })).body.status).toBe('in_progress');
    expect((await ada.post(`${task}/complete`, { work_session: other })).body.code).toBe('TaskAssigned');
    expect((await ada.post(`${task}/progress`, { work_session, note: 'half' })).body.note).toBe('half');
    expect((await ada.post(`${task}/complete`, { work_session })).body.status).toBe('completed');
  }
  const ended = await ada.post(`${at}/sessions/${work_session}/end`, { context_usage: 0.4 });
  expect(ended.body.session).toMatchObject({
    status: 'ended',
    completed: expect.arrayContaining(['Phase 1, Plan 1: Draw']),
  });
  expect((await ada.get(at)).body).toMatchObject({
    initiative: { status: 'completed' },
    state: { progress: { phases_completed: 2, phases_total: 2 } },
    phases: [{ plans: [{ summary: '- Draw: half\n- Choose: "green": half' }] }, { status: 'completed' }],
  });
  expect((await stateFile(at)).text).toContain('████████████████ 100%');
});

it('H12 the same creation twice is one initiative, and lists have pages', async () => {
  const bob = host.as('bob');
  const create = (key: string) => bob.post('/api/initiatives', PLAN, { 'idempotency-key': key });
  const [first, again, second] = [await create('a'), await create('a'), await create('b')];
  expect(again.body).toEqual(first.body);
  const page = (await bob.get('/api/initiatives?limit=1')).body;
  expect(page).toMatchObject({ items: [second.body], next: second.body.initiative.initiative_id });
  expect((await bob.get(`/api/initiatives?after=${page.next}`)).body).toEqual({ items: [first.body], next: null });
});

it('H2 H12 a key that comes again with other arguments is KeyReused and changes nothing; with the same, a repeat', async () => {
  const carl = host.as('carl');
  const under = (path: string, body: object, key: string) => carl.post(path, body, { 'idempotency-key': key });
  const made = await under('/api/initiatives', PLAN, 'key');
  expect(await under('/api/initiatives', { ...PLAN, title: 'Coffee' }, 'key')).toMatchObject({
    status: 422,
    body: { code: 'KeyReused', errors: [{ field: 'Idempotency-Key' }] },
  });
  expect((await carl.get('/api/initiatives')).body.items).toHaveLength(1);
  const at = `/api/initiatives/${made.body.initiative.initiative_id}`;
  const [draw, choose] = (await carl.get(at)).body.phases[0].plans[0].tasks as { task_id: string }[];
  const decision = { context: 'Size', decision: 'small', reason: 'tea' };
  /** In their order: each goes on from those before it. */
  const cases: [path: string, body: object, other: object | string][] = [
    ['sessions', { agent: 'worker' }, { agent: 'verifier' }],
    ['sessions', { agent: 'worker', working_on: 'tea' }, { agent: 'worker' }],
    ['tasks/next', { work_session: 'session-001' }, { work_session: 'session-002' }],
    [`tasks/${draw!.task_id}/start`, { work_session: 'session-001' }, `tasks/${choose!.task_id}/start`],
    [`tasks/${draw!.task_id}/progress`, { work_session: 'session-001', note: 'half' }, { work_session: 'session-001' }],
    [
      `tasks/${draw!.task_id}/complete`,
      { work_session: 'session-001', note: 'b' },
      { work_session: 'session-001', note: 'c' },
    ],
    ['decisions', decision, { ...decision, reason: 'coffee' }],
    ['blockers', { description: 'No pens', affects: [] }, { description: 'No paper', affects: [] }],
    ['blockers', { description: 'No ink', affects: [] }, { description: 'No paper', affects: [] }],
    ['blockers/block-001/bypass', { workaround: 'chalk', workaround_tasks: ['Buy chalk'] }, { workaround: 'chalk' }],
    ['blockers/block-001/resolve', { resolution: 'pens' }, 'blockers/block-002/resolve'],
    ['state', { next_action: 'Go on.' }, { next_action: 'Stop.' }],
    ['sessions/session-001/end', { context_usage: 0.4 }, 'sessions/session-002/end'],
  ];
  for (const [n, [path, body, other]] of cases.entries()) {
    const first = await under(`${at}/${path}`, body, `key-${n}`);
    expect([path, first.status]).toEqual([path, 200]);
    const before = (await carl.get(at)).body as object;
    const [otherPath, otherBody] = typeof other === 'string' ? [other, body] : [path, other];
    const refused = await under(`${at}/${otherPath}`, otherBody, `key-${n}`);
    expect([path, refused.status, refused.body.code]).toEqual([path, 422, 'KeyReused']);
    expect((await under(`${at}/${path}`, body, `key-${n}`)).body).toEqual(first.body);
    expect((await carl.get(at)).body).toEqual(before);
  }
});

it('H12 I5 blockers and decisions are recorded, and shown in STATE.md', async () => {
  const at = await created();
  const [draw, ...others] = await tasksOf(at);
  const { blocker } = (
    await ada.post(`${at}/blockers`, { description: 'No pens', affects: ['Design'], blocked_tasks: [draw] })
  ).body;
  expect(blocker).toMatchObject({
    id: 'block-001',
    status: 'active',
    blocked_tasks: [{ task_id: draw, name: 'Draw' }],
  });
  expect((await stateFile(at)).text).toContain(`status: blocked`);
  const statuses = async () => {
    const [, position = ''] = /^position:\n((?: .*\n)+)/m.exec((await stateFile(at)).text) ?? [];
    return [(await ada.get(at)).body.initiative.status as string, /^ +status: (\w+)$/m.exec(position)?.[1]];
  };
  await ada.post(`${at}/blockers`, { description: 'No table', affects: [], blocked_tasks: [others[0]] });
  expect(await statuses()).toEqual(['paused', 'paused']);
  await ada.post(`${at}/blockers`, { description: 'No paper', affects: [], blocked_tasks: [others[1]] });
  expect(await statuses()).toEqual(['escalated', 'escalated']);
  for (const id of ['block-002', 'block-003']) await ada.post(`${at}/blockers/${id}/resolve`, { resolution: 'found' });
  await ada.post(`${at}/blockers/block-001/bypass`, { workaround: 'chalk', workaround_tasks: ['Draw again'] });
  expect((await stateFile(at)).text).toMatch(/workaround: "chalk"\n +workaround_tasks:\n +- tsk_\w+: "Draw again"/);
  const resolved = await ada.post(`${at}/blockers/block-001/resolve`, { resolution: 'pens' });
  expect(resolved.body.blocker).toMatchObject({ status: 'resolved', resolution: 'pens', workaround: 'chalk' });
  expect(await ada.post(`${at}/blockers/block-001/resolve`, { resolution: 'pens' })).toMatchObject({
    status: 409,
    body: { code: 'BlockerResolved' },
  });
  expect((await stateFile(at)).text).toContain('blockers: []');
  const { decision } = (
    await ada.post(`${at}/decisions`, { context: 'c', decision: 'd', reason: 'r', kind: 'trade-off' })
  ).body;
  expect((await ada.get(`${at}/decisions/${decision.decision_id}`)).body).toEqual({ decision });
});

it('I2 H12 an edit of STATE.md becomes updates, all or nothing, and only of the file that was read', async () => {
  const at = await created();
  await ada.post(`${at}/blockers`, { description: 'No pens', affects: [] });
  const before = await stateFile(at);
  expect(await put(at, before.text, before.etag)).toMatchObject({ status: 200, text: before.text, etag: before.etag });
  const edit = before.text
    .replace('task: "Draw"', `task: 'Choose: "green"'`)
    .replace('status: active', 'status: resolved')
    .replace('resolution: null', 'resolution: found some')
    .replace('# Active Blockers', '  - { context: Pens, decision: yes, reason: 1e3 }\n# Active Blockers')
    .replace('Begin.', 'Go on: # not a comment');
  const both = edit.replace('Choose: "green"', 'No such task');
  expect(await put(at, both, before.etag)).toMatchObject({
    status: 400,
    code: 'BadRequest',
    errors: [
      {
        field: `line ${before.text.split('\n').indexOf('position:') + 1}`,
        expected: expect.stringContaining('position.task') as string,
      },
    ],
  });
  expect(await stateFile(at)).toEqual(before);
  const done = await put(at, edit, before.etag);
  expect(done.status).toBe(200);
  expect((await ada.get(at)).body).toMatchObject({
    initiative: { next_action: 'Go on: # not a comment\n' },
    state: { position: { task: 'Choose: "green"' } },
    decisions: [{ decision: 'green' }, { context: 'Pens', decision: 'yes', reason: '1e3' }],
    blockers: [{ status: 'resolved', resolution: 'found some' }],
  });
  expect(await stateFile(at)).toEqual({ text: done.text, etag: done.etag });
  expect(await put(at, edit, before.etag)).toMatchObject({ status: 412, code: 'StaleState' });
  expect(await put(at, done.text)).toMatchObject({ status: 428, code: 'PreconditionRequired' });
  expect(await put(at, done.text.replace('phases_total: 2', 'phases_total: 3'), '*')).toMatchObject({ status: 400 });
  expect(await put(at, `# ${'x'.repeat(5 * 1024 ** 2)}`, done.etag ?? '')).toMatchObject({
    status: 413,
    code: 'TooLarge',
    detail: expect.stringContaining('a larger STATE.md is changed by the other routes') as string,
  });
  // As for the route that changes it alone.
  expect(await put(at, done.text.replace('Go on:', 'x'.repeat(10_001)), '*')).toMatchObject({
    status: 400,
    errors: [
      {
        field: expect.stringMatching(/^line \d+$/) as string,
        expected: expect.stringContaining('next_action') as string,
      },
    ],
  });
  expect(await stateFile(at)).toEqual({ text: done.text, etag: done.etag });
});

it('I2 H12 the export is an archive of the folder .planning/', async () => {
  const at = await created();
  const response = await ada.fetch(`${at}/planning.tar.gz`);
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/gzip']);
  const entries = await unpackTar(new Uint8Array(gunzipSync(await response.bytes())));
  const texts = new Map(entries.map(({ header, data }) => [header.name, new TextDecoder().decode(data)]));
  expect(texts.get('.planning/STATE.md')).toBe((await stateFile(at)).text);
  expect([...texts.keys()]).toEqual(expect.arrayContaining(['.planning/1-1-PLAN.md', '.planning/2-1-PLAN.md']));
});

it('I2 of two edits at once one wins', async () => {
  const at = await created();
  const { text, etag } = await stateFile(at);
  const answers = await Promise.all(['one', 'two', 'three'].map((word) => put(at, text.replace('Begin.', word), etag)));
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412, 412]);
});

it('H12 bad input is named, and changes nothing', async () => {
  const at = await created();
  const { worker, other, task_id } = await atWork(at);
  const before = await shown(at);
  const plan = (tasks: object[]) => ({ title: 't', phases: [{ name: 'p', plans: [{ name: 'l', tasks }] }] });
  const many = Array.from({ length: 1_000 }, (_, n) => ({ name: `${n}` }));
  const [large] = plan(many).phases;
  const cases: [string, object, string][] = [
    ['/api/initiatives', { title: 't', phases: [] }, 'phases'],
    ['/api/initiatives', plan([]), 'phases[0].plans[0].tasks'],
    ['/api/initiatives', plan([{ name: 'a' }, { name: 'a' }]), 'phases[0].plans[0].tasks'],
    ['/api/initiatives', { title: 't', phases: Array(11).fill(large) }, 'phases'],
    // They are equal when they are stored.
    ['/api/initiatives', plan([{ name: 'a\0' }, { name: 'a\uFFFD' }]), 'phases[0].plans[0].tasks'],
    ['/api/initiatives', plan([{ name: '\uD800' }, { name: '\uD801' }]), 'phases[0].plans[0].tasks'],
    ['/api/initiatives', plan([{ name: ' \n' }]), 'phases[0].plans[0].tasks[0].name'],
    [`${at}/blockers/block-001/bypass`, { workaround: 'w', workaround_tasks: ['a\0', 'a\uFFFD'] }, 'workaround_tasks'],
    [`${at}/state`, { progress: {} }, 'progress'],
    [`${at}/state`, { position: { phase: 9, plan: 1, task: 'Draw' } }, 'position.phase'],
    [`${at}/state`, { position: { phase: 1, plan: 7, task: 'Draw' } }, 'position.plan'],
    [`${at}/state`, { position: { phase: 1, plan: 1, task: 'Rest' } }, 'position.task'],
    [`${at}/state`, { position: { phase: 1, plan: 1, task: 'Draw', status: 'completed' } }, 'position.status'],
    [`${at}/sessions/session-001/end`, { context_usage: 62 }, 'context_usage'],
    [`${at}/decisions`, { context: 'c', decision: 'd', reason: 'r', date: 'today' }, 'date'],
  ];
  for (const [path, body, field] of cases) {
    expect(await ada.post(path, body), path).toMatchObject({
      status: 400,
      body: { code: 'BadRequest', errors: [{ field }] },
    });
  }
  const refused: [string, object, string][] = [
    [`/tasks/${task_id}/complete`, { work_session: other }, 'TaskAssigned'],
    [`/tasks/${task_id}/complete`, { work_session: 'session-009' }, 'TaskAssigned'],
    [`/tasks/tsk_none/complete`, { work_session: worker }, 'TaskNotFound'],
    ['/blockers/block-001/resolve', { resolution: 'again' }, 'BlockerResolved'],
    ['/blockers/block-001/bypass', { workaround: 'again' }, 'BlockerResolved'],
    ['/blockers/block-009/resolve', { resolution: 'none' }, 'BlockerNotFound'],
    ['/sessions/session-009/end', {}, 'WorkSessionNotFound'],
  ];
  for (const [path, body, code] of refused) {
    const { status, body: answer } = await ada.post(`${at}${path}`, body);
    expect([status, answer.code], path).toEqual([code.endsWith('NotFound') ? 404 : 409, code]);
  }
  expect(await shown(at)).toEqual(before);
  const odd = await ada.post(`${at}/state`, { next_action: 'a\0b' });
  expect(odd.body.initiative.next_action).toBe('a\uFFFDb');
});

it('I2 H12 an edit of STATE.md that cannot be an update is refused with its line, and changes nothing', async () => {
  const at = await created();
  await atWork(at);
  const before = await shown(at);
  const { text, etag } = await stateFile(at);
  const cases: [string, string, string][] = [
    ['phases_total: 2', 'phases_total: 3', 'progress.phases_total'],
    ['current_phase_completed: 0', 'current_phase_completed: 2', 'progress.current_phase_completed'],
    ['░ 0%', '░ 100%', 'progress.bar'],
    ['initiative: ini', 'initiative: inj', 'initiative'],
    ['status: in_progress', 'status: completed', 'position.status'],
    ['  phase: 1', '  phase: 9', 'position.phase'],
    ['  plan: 1', '  plan: 7', 'position.plan'],
    ['task: "Draw"', 'task: "Rest"', 'position.task'],
    ['- id: session-001', '- id: session-009', 'sessions[0]'],
    ['decision: "green"', 'decision: "red"', 'decisions[0]'],
  ];
  for (const [from, to, field] of cases) {
    expect(text, from).toContain(from);
    expect(await put(at, text.replace(from, to), etag), to).toMatchObject({
      ...{ status: 400, code: 'BadRequest' },
      errors: [
        {
          field: expect.stringMatching(/^line \d+$/) as string,
          expected: expect.stringContaining(field) as string,
        },
      ],
    });
  }
  expect(await put(at, `# ${'x'.repeat(5 * 1024 ** 2)}`, etag)).toMatchObject({ status: 413, code: 'TooLarge' });
  expect(await shown(at)).toEqual(before);
});

it('Q3 H12 another user gets the same 404 as for an unknown initiative, on every route', async () => {
  const at = await created();
  const id = at.split('/').at(-1)!;
  const [task] = await tasksOf(at);
  await ada.post(`${at}/sessions`, { agent: 'worker' });
  await ada.post(`${at}/blockers`, { description: 'b', affects: [] });
  const before = (await ada.get(at)).body as object;
  const routes = (await routesOf(host.url)).filter(({ path }) => path.startsWith('/api/initiatives/{id}'));
  expect(routes.length).toBeGreaterThan(14);
  const names = { work_session: 'session-001', blocker_id: 'block-001', task_id: task! };
  for (const route of routes) {
    const [foreign, unknown] = await Promise.all(
      [id, 'ini_unknown'].map(async (each) => {
        const { path, init } = requestTo(route, { params: { ...names, id: each } });
        const response = await eve.fetch(path, init);
        return [response.status, await response.text()];
      }),
    );
    expect(foreign, route.name).toEqual(unknown);
    expect(foreign![0], route.name).toBe(404);
  }
  expect((await ada.get(at)).body).toEqual(before);
  expect((await eve.get('/api/initiatives')).body.items).toEqual([]);
});
