// Import of the folder .planning/, over HTTP and by command.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { packTar, unpackTar } from 'modern-tar';
import { beforeAll, expect, it } from 'vitest';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import type { InitiativeView } from '../../wire/initiative-views.ts';

let databaseUrl: string;
let host: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  databaseUrl = await freshDatabase();
  host = await startHost({ databaseUrl });
  ada = host.as('ada');
});

const ODD = 'no: "yes" # 1e3 · שלום 🫖';

/** The path of an initiative in the middle of its work. */
async function atWork(): Promise<string> {
  const plan = (name: string, tasks: [string, number][], body = '') => ({
    ...{ name, body },
    tasks: tasks.map(([task, wave]) => ({ name: task, wave })),
  });
  const made = await ada.post('/api/initiatives', {
    title: ODD,
    next_action: `Go on:\n  ${ODD}\n`,
    phases: [
      {
        name: 'Design',
        plans: [plan('Pages', [['Draw', 1]], '\n# How\n\n- [ ] is no task\n'), plan('Words', [['Write', 1]])],
      },
      {
        name: ODD,
        plans: [
          plan('Build', [
            ['Test', 2],
            ['Wall (wave 3)', 1],
            [ODD, 1],
            ['Roof', 1],
          ]),
          plan('Check', [['Test', 1]]),
        ],
      },
    ],
    decisions: [
      { context: 'c', decision: `${ODD}\nmore`, reason: 'r', kind: 'trade-off', date: '2025-12-31', reversible: false },
    ],
  });
  const at = `/api/initiatives/${made.body.initiative.initiative_id}`;
  const work_session = (await ada.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;
  for (let n = 0; n < 2; n += 1) {
    const { task_id } = (await ada.post(`${at}/tasks/next`, { work_session })).body;
    await ada.post(`${at}/tasks/${task_id}/start`, { work_session });
    await ada.post(`${at}/tasks/${task_id}/complete`, { work_session, note: 'It went\n\nwell' });
  }
  await ada.post(`${at}/sessions/session-001/end`, { context_usage: 0.62, issues: ['slow'], notes: `a\n${ODD}` });
  const tasks = await tasksOf(at);
  const id = (name: string) => tasks.find((task) => task.name === name)!.task_id;
  const blocker = (description: string, blocked: string[]) =>
    ada.post(`${at}/blockers`, { description, affects: [ODD], blocked_tasks: blocked });
  await blocker('No pens', [id('Wall (wave 3)')]);
  await blocker('No chalk', [id('Roof')]);
  await blocker('No time', [tasks.at(-1)!.task_id]);
  await ada.post(`${at}/blockers/block-001/resolve`, { resolution: 'pens' });
  await ada.post(`${at}/blockers/block-002/bypass`, { workaround: 'coal', workaround_tasks: ['Roof again'] });
  await ada.post(`${at}/state`, {
    position: { phase: 2, plan: 1, task: 'Roof again' },
    resume_context: { files_modified_this_session: ['a b.ts'], key_implementations: ['`x`'], open_questions: [ODD] },
  });
  return at;
}

async function tasksOf(at: string) {
  const view = (await ada.get(at)).body as InitiativeView;
  return view.phases.flatMap(({ plans }) => plans.flatMap((each) => each.tasks));
}

async function exported(at: string): Promise<Buffer> {
  return Buffer.from(await (await ada.fetch(`${at}/planning.tar.gz`)).arrayBuffer());
}

interface ImportAnswer {
  initiative?: { initiative_id: string };
  errors?: { field: string }[];
}

async function importOf(archive: Uint8Array, { query = '', caller = ada, key = '' } = {}) {
  const response = await caller.fetch(`/api/initiatives/import${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/gzip', ...(key !== '' && { 'idempotency-key': key }) },
    body: new Uint8Array(archive),
  });
  return {
    status: response.status,
    body: (await response.json()) as ImportAnswer,
  };
}

const pathOf = (made: { body: { initiative?: { initiative_id: string } } }) =>
  `/api/initiatives/${made.body.initiative?.initiative_id}`;

/** The files of an export, without what is new in every installation: ids of the initiative and of tasks. */
async function textsOf(archive: Uint8Array): Promise<Record<string, string>> {
  const entries = await unpackTar(new Uint8Array(gunzipSync(archive)));
  const text = (data?: Uint8Array) =>
    new TextDecoder()
      .decode(data)
      .replaceAll(/ini_\w+/g, 'ini')
      .replaceAll(/tsk_\w+/g, 'tsk');
  return Object.fromEntries(entries.map(({ header, data }) => [header.name, text(data)]));
}

const ONE_TASK = [{ name: 'first', plans: [{ name: 'first', tasks: [{ name: 'first' }] }] }];

const count = async () => ((await ada.get('/api/initiatives?limit=200')).body.items as unknown[]).length;

it('I2 H12 what was exported is imported as the same initiative', async () => {
  const at = await atWork();
  const archive = await exported(at);
  const made = await importOf(archive);
  expect(made).toMatchObject({
    status: 201,
    body: {
      report: { title: ODD, phases: 2, plans: 4, tasks: 8, completed: 2, decisions: 1, blockers: 3, sessions: 1 },
    },
  });
  const again = await textsOf(await exported(pathOf(made)));
  const before = await textsOf(archive);
  // The tasks of a resolved blocker are not kept.
  const resolved = Object.keys(before).find((name) => name.includes('block-001'))!;
  before[resolved] = before[resolved]!.replace('- Blocked tasks:\n  - Wall (wave 3) (tsk)\n', '');
  expect(again).toEqual(before);
  const shown = (await ada.get(pathOf(made))).body as InitiativeView;
  expect(shown).toMatchObject({
    initiative: { status: 'active', version: 1, user_id: 'ada' },
    state: { position: { task: 'Roof again', status: 'open' }, progress: { phases_completed: 1, phases_total: 2 } },
    phases: [{ status: 'completed', plans: [{ status: 'completed', body: '\n# How\n\n- [ ] is no task' }, {}] }, {}],
  });
  // Work goes on where it was.
  const { session } = (await ada.post(`${pathOf(made)}/sessions`, { agent: 'worker' })).body;
  expect(session.id).toBe('session-002');
  // What it left in the workspace is not here.
  await ada.post(`${pathOf(made)}/review`, { note: 'imported' });
  const next = await ada.post(`${pathOf(made)}/tasks/next`, { work_session: session.id });
  expect(next.body).toMatchObject({ phase: 2, plan: 1, wave: 1, status: 'open' });
});

it('I2 an initiative that is completed stays so', async () => {
  const plans = (name: string) => [{ name, tasks: [{ name }] }];
  const phases = ['first', 'last'].map((name) => ({ name, plans: plans(name) }));
  const at = pathOf(await ada.post('/api/initiatives', { title: 't', phases }));
  await ada.post(`${at}/sessions`, { agent: 'worker' });
  const work = { work_session: 'session-001' };
  for (const { task_id } of await tasksOf(at)) {
    await ada.post(`${at}/tasks/${task_id}/start`, work);
    await ada.post(`${at}/tasks/${task_id}/complete`, work);
  }
  const archive = await exported(at);
  const made = await importOf(archive);
  expect((await ada.get(pathOf(made))).body).toMatchObject({
    initiative: { status: 'completed' },
    state: { position: { phase: 2, task: 'last', status: 'completed' }, progress: { phases_completed: 2 } },
    phases: [
      { status: 'completed', plans: [{ summary: '- first' }] },
      { status: 'completed', plans: [{ summary: '- last' }] },
    ],
    // It was active there; nobody works here.
    sessions: [{ status: 'ended', handoff_reason: 'The initiative was imported' }],
  });
});

it('H12 a dry run and a line that cannot be read store nothing; a repeat with its key is one import', async () => {
  const archive = await exported(await atWork());
  const before = await count();
  const dry = await importOf(archive, { query: '?dry_run=true' });
  expect(dry).toMatchObject({ status: 200, body: { report: { tasks: 8 } } });
  expect(dry.body).not.toHaveProperty('initiative');
  const entries = await unpackTar(new Uint8Array(gunzipSync(archive)));
  const broken = entries.map(({ header, data }) => {
    const body = new TextDecoder().decode(data).replace('- [ ] Test', '- ( ) Test').replace('wave: 1', 'wave: x');
    return { header: { ...header, size: Buffer.byteLength(body) }, body };
  });
  const refused = await importOf(gzipSync(await packTar([...broken, { header: { name: '../x', size: 0 }, body: '' }])));
  expect([refused.status, refused.body.errors?.map(({ field }) => field)]).toEqual([
    400,
    ['../x', '2-1-PLAN.md line 9', '2-2-PLAN.md line 5', '2-2-PLAN.md', expect.stringMatching(/^STATE\.md line \d+$/)],
  ]);
  expect(await count()).toBe(before);
  const [one, two] = await Promise.all([importOf(archive, { key: 'k' }), importOf(archive, { key: 'k' })]);
  expect([one.status, pathOf(one)]).toEqual([201, pathOf(two)]);
  const other = await exported(pathOf(await ada.post('/api/initiatives', { title: 't', phases: ONE_TASK })));
  expect(await importOf(other, { key: 'k' })).toMatchObject({ status: 422, body: { code: 'KeyReused' } });
  expect(
    (await ada.post('/api/initiatives', { title: 't', phases: ONE_TASK }, { 'idempotency-key': 'k' })).status,
  ).toBe(422);
  expect(await count()).toBe(before + 2);
  expect(pathOf(await importOf(archive))).not.toBe(pathOf(one));
});

it('H12 Q3 an import belongs to who sends it, whoever has exported it', async () => {
  const at = await atWork();
  const chat = (await ada.post('/api/sessions', {})).body.session.session_id as string;
  await ada.post(`${at}/sessions`, { agent: 'worker', session_id: chat });
  const archive = await exported(at);
  const eve = host.as('eve');
  const made = await importOf(archive, { caller: eve });
  const view = (await eve.get(pathOf(made))).body as InitiativeView;
  expect(view.initiative.user_id).toBe('eve');
  expect(view.sessions.map(({ session_id }) => session_id)).toEqual([null, null]);
  expect((await ada.get(pathOf(made))).status).toBe(404);
  const own = (await ada.get(pathOf(await importOf(archive)))).body as InitiativeView;
  expect(own.sessions.map(({ session_id }) => session_id)).toEqual([null, chat]);
});

const LARGE_TEXT = `# ${'x'.repeat(5 * 1024 ** 2)}`;
const LARGE = { header: { name: '.planning/STATE.md', size: LARGE_TEXT.length }, body: LARGE_TEXT };
const TOO_LARGE = { field: 'STATE.md', expected: 'at most 1048576 bytes' };

it('H12 too much, and what is no archive, is refused by name', async () => {
  expect(await importOf(randomBytes(5 * 1024 ** 2))).toMatchObject({ status: 413, body: { code: 'TooLarge' } });
  expect(await importOf(gzipSync(Buffer.alloc(64 * 1024 ** 2)))).toMatchObject({
    status: 413,
    body: { code: 'TooLarge' },
  });
  expect(await importOf(Buffer.from('{}'))).toMatchObject({ status: 400, body: { errors: [{ field: 'body' }] } });
  expect(await importOf(Buffer.alloc(0))).toMatchObject({ status: 400, body: { errors: [{ field: 'body' }] } });
  const before = await count();
  expect(await importOf(gzipSync(await packTar([LARGE])))).toMatchObject({
    status: 400,
    body: { errors: expect.arrayContaining([TOO_LARGE]) as object[] },
  });
  expect(await count()).toBe(before);
});

function perdure(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const program = path.join(import.meta.dirname, '..', '..', 'dev', 'bin', 'perdure.ts');
  const env = {
    ...process.env,
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: '127.0.0.1:1',
    PERDURE_LOG_LEVEL: 'fatal',
  };
  const { promise, resolve } = Promise.withResolvers<{ code: number; out: string; err: string }>();
  execFile(process.execPath, [program, 'planning', ...args], { env }, (error, out, err) =>
    resolve({ code: error === null ? 0 : Number(error.code), out, err }),
  );
  return promise;
}

it('I2 the command exports the folder and imports it', async () => {
  const at = await atWork();
  const folder = scratchDir();
  const given = ['--user', 'ada', '--folder', folder];
  const initiative = ['--initiative', at.split('/').at(-1)!];
  expect(await perdure('export', ...given, ...initiative)).toMatchObject({ code: 0 });
  const planning = path.join(folder, '.planning');
  expect(await readFile(path.join(planning, 'STATE.md'), 'utf8')).toBe(
    await (await ada.fetch(`${at}/STATE.md`)).text(),
  );
  expect(await perdure('export', ...given, ...initiative)).toMatchObject({
    code: 1,
    err: expect.stringContaining('is there already') as string,
  });
  await symlink('/etc/passwd', path.join(planning, '1-9-PLAN.md'));
  const before = await count();
  expect(await perdure('import', ...given, '--dry-run')).toMatchObject({
    code: 0,
    out: expect.stringContaining('"tasks": 8') as string,
  });
  expect(await count()).toBe(before);
  const made = await perdure('import', ...given);
  const { initiative_id } = JSON.parse(made.out) as { initiative_id: string };
  expect(await textsOf(await exported(`/api/initiatives/${initiative_id}`))).toMatchObject({
    '.planning/STATE.md': (await textsOf(await exported(at)))['.planning/STATE.md']!,
  });
  await mkdir(path.join(folder, 'other', '.planning'), { recursive: true });
  await writeFile(path.join(folder, 'other', '.planning', 'STATE.md'), 'title: [');
  expect(await perdure('import', '--user', 'ada', '--folder', path.join(folder, 'other'))).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^1-1-PLAN\.md: expected .*\nSTATE\.md line \d: expected YAML/) as string,
  });
  await writeFile(path.join(folder, 'other', '.planning', 'STATE.md'), LARGE_TEXT);
  expect(await perdure('import', '--user', 'ada', '--folder', path.join(folder, 'other'))).toMatchObject({
    code: 1,
    err: expect.stringContaining(`${TOO_LARGE.field}: expected ${TOO_LARGE.expected}`) as string,
  });
  expect(await perdure('import')).toMatchObject({ code: 2, err: expect.stringContaining('--user') as string });
});
