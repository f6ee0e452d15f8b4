// Resuming an initiative: what a work session is told, and what stops it.
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startHost, type TestCaller } from '../../tools/test-kit/host.ts';
import { planned } from '../../tools/test-kit/initiative.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { userFolder } from '../../workspaces/paths.ts';

const workspaces = scratchDir();
let ada: TestCaller;
let db: pg.Pool;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  db = patientPool(databaseUrl);
  afterFile(() => db.end());
  ada = (await startHost({ databaseUrl, workspaces })).as('ada');
});

let made = 0;

/** An initiative with a workspace of its own, in which these files are. */
async function withFiles(files: Record<string, string>) {
  const workspace_root = `place-${(made += 1)}`;
  const root = path.join(userFolder(workspaces, 'ada'), workspace_root);
  for (const [file, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(root, file)), { recursive: true });
    await writeFile(path.join(root, file), text);
  }
  const { body } = await ada.post('/api/initiatives', { ...planned([['one', 'two'], ['three']]), workspace_root });
  return { at: `/api/initiatives/${body.initiative.initiative_id}`, root };
}

const session = async (at: string) => (await ada.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;

it('I4 a work session is told where it goes on, what was done, decided, and what blocks', async () => {
  const body = {
    title: 'x',
    phases: [
      {
        name: 'JWT',
        plans: [
          { name: 'Keys', tasks: [{ name: 'make' }] },
          { name: 'Rotation', body: '# How\n', tasks: [{ name: 'endpoint' }, { name: 'tests' }] },
        ],
      },
    ],
    decisions: [{ context: 'c', decision: 'd', reason: 'r' }],
  };
  const at = `/api/initiatives/${(await ada.post('/api/initiatives', body)).body.initiative.initiative_id}`;
  const work_session = await session(at);
  const { task_id } = (await ada.post(`${at}/tasks/next`, { work_session })).body;
  await ada.post(`${at}/tasks/${task_id}/start`, { work_session });
  await ada.post(`${at}/tasks/${task_id}/complete`, { work_session, note: 'two keys' });
  for (const description of ['a', 'b', 'c']) await ada.post(`${at}/blockers`, { description, affects: [] });
  await ada.post(`${at}/blockers/block-001/resolve`, { resolution: 'r' });
  await ada.post(`${at}/blockers/block-002/bypass`, { workaround: 'w' });
  const resume = {
    message: 'Resuming from Phase 1, Plan 2, Task: endpoint',
    position: { phase: 1, plan: 2, task: 'endpoint' },
    plan: { plan: 2, name: 'Rotation', body: '# How\n', tasks: [{ name: 'endpoint' }, { name: 'tests' }] },
    summaries: [{ plan: 1, name: 'Keys', summary: '- make: two keys' }],
    decisions: [{ decision: 'd' }],
    blockers: [{ id: 'block-003', status: 'active' }],
    last_sessions: [],
    review: null,
  };
  expect(await ada.post(`${at}/resume`)).toMatchObject({ status: 200, body: resume });
  expect((await ada.post(`${at}/sessions`, { agent: 'worker' })).body).toMatchObject({
    session: { id: 'session-002' },
    resume,
  });
});

it('I4 I7 a resume has the five work sessions that ended last, however they were numbered', async () => {
  const { at } = await withFiles({});
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1) ids.push(await session(at));
  const ended = [6, 0, 5, 1, 4, 2].map((n) => ids[n]!);
  for (const [n, id] of ended.entries()) {
    await ada.post(`${at}/sessions/${id}/end`, { notes: `the end ${n}` });
    await db.query(
      `UPDATE session_history SET ended = ended - make_interval(mins => $3) WHERE initiative_id = $1 AND id = $2`,
      [at.split('/').at(-1), id, 10 - n],
    );
  }
  const { last_sessions } = (await ada.post(`${at}/resume`)).body as { last_sessions: { id: string; notes: string }[] };
  expect(last_sessions.map(({ id, notes }) => [id, notes])).toEqual(
    [5, 4, 3, 2, 1].map((n) => [ended[n], `the end ${n}`]),
  );
});

it('I4 what is missing is flagged, and nobody goes on until it was reviewed', async () => {
  const { at, root } = await withFiles({ 'src/a.ts': 'export const rotate = 1;', 'src/b.ts': '' });
  const context = {
    files_modified_this_session: ['src/a.ts', 'src/b.ts'],
    key_implementations: ['rotate', 'src/a.ts#rotate'],
  };
  await ada.post(`${at}/state`, { resume_context: context });
  expect((await ada.post(`${at}/resume`)).body.review).toBeNull();
  await rm(path.join(root, 'src/b.ts'));
  await writeFile(path.join(root, 'src/a.ts'), 'export const other = 1;');
  const before = (await ada.get(at)).body.initiative.version;
  const review = [
    { kind: 'file', entry: 'src/b.ts', problem: 'it does not exist' },
    { kind: 'implementation', entry: 'rotate', problem: 'not found: rotate' },
    { kind: 'implementation', entry: 'src/a.ts#rotate', problem: 'not found: rotate' },
  ];
  const flagged = (await ada.post(`${at}/sessions`, { agent: 'worker' })).body;
  expect(flagged.resume).toMatchObject({ review, message: expect.stringMatching(/^Review required/) as string });
  const work_session = flagged.session.id as string;
  const refused = { status: 409, body: { code: 'ReviewRequired' } };
  expect(await ada.post(`${at}/tasks/next`, { work_session })).toMatchObject(refused);
  const { task_id } = flagged.resume.plan.tasks[0];
  expect(await ada.post(`${at}/tasks/${task_id}/start`, { work_session })).toMatchObject(refused);
  expect((await ada.post(`${at}/resume`)).body.review).toEqual(review);
  // Restored meanwhile: somebody has to look all the same.
  await writeFile(path.join(root, 'src/b.ts'), '');
  expect((await ada.post(`${at}/resume`)).body.review).toEqual(review);
  await rm(path.join(root, 'src/b.ts'));
  expect(await ada.post(`${at}/review`, {})).toMatchObject({ status: 400, body: { errors: [{ field: 'note' }] } });
  expect((await ada.post(`${at}/review`, { note: 'renamed' })).body.initiative.review).toBeNull();
  // These are accepted, others are not.
  expect((await ada.post(`${at}/resume`)).body).toMatchObject({ review: null, message: /^Resuming/ });
  expect((await ada.get(at)).body.initiative.version).toBe(before + 1);
  expect((await ada.post(`${at}/tasks/next`, { work_session })).status).toBe(200);
  await rm(path.join(root, 'src/a.ts'));
  expect((await ada.post(`${at}/resume`)).body.review).toMatchObject([{ entry: 'src/a.ts' }]);
  await ada.post(`${at}/review`, { note: 'removed' });
  // Another context has to be accepted anew.
  await ada.post(`${at}/state`, { resume_context: { open_questions: ['why?'] } });
  expect((await ada.post(`${at}/resume`)).body.review).toHaveLength(4);
});

it('I4 a review accepts what its author has seen, and what was flagged since stays', async () => {
  const { at } = await withFiles({});
  const flag = async (...files: string[]) => {
    await ada.post(`${at}/state`, { resume_context: { files_modified_this_session: files } });
    return (await ada.post(`${at}/resume`)).body.review as { entry: string }[];
  };
  const seen = await flag('a.ts');
  await flag('a.ts', 'b.ts');
  const reviewed = await ada.post(`${at}/review`, { note: 'a draft', seen });
  expect(reviewed.body.initiative.review).toMatchObject([{ entry: 'b.ts' }]);
  const work_session = await session(at);
  expect(await ada.post(`${at}/tasks/next`, { work_session })).toMatchObject({ status: 409 });
  // What was accepted is not flagged again, and what nobody has flagged is not accepted.
  expect((await ada.post(`${at}/resume`)).body.review).toMatchObject([{ entry: 'b.ts' }]);
  const other = [{ ...seen[0], entry: 'c.ts' }];
  expect((await ada.post(`${at}/review`, { note: 'n', seen: other })).body.initiative.review).toHaveLength(1);
  expect((await ada.post(`${at}/review`, { note: 'both' })).body.initiative.review).toBeNull();
  expect(await flag('a.ts', 'b.ts', 'c.ts')).toHaveLength(3);
});

it('H12 I4 files outside of the workspace are refused, by route and by STATE.md', async () => {
  const { at } = await withFiles({});
  for (const file of ['../secret', '/etc/passwd', 'a/../../b', '.git/config']) {
    const resume_context = { files_modified_this_session: ['fine.ts', file] };
    expect(await ada.post(`${at}/state`, { resume_context }), file).toMatchObject({
      status: 400,
      body: { code: 'BadRequest', errors: [{ field: 'resume_context.files_modified_this_session[1]' }] },
    });
  }
  const read = await ada.fetch(`${at}/STATE.md`);
  const text = (await read.text()).replace(
    'files_modified_this_session: []',
    'files_modified_this_session: ["../secret"]',
  );
  const headers = { 'content-type': 'text/markdown', 'if-match': read.headers.get('etag') ?? '' };
  const put = await ada.fetch(`${at}/STATE.md`, { method: 'PUT', headers, body: text });
  const line = text.split('\n').indexOf('resume_context:') + 1;
  expect(await put.json()).toMatchObject({ code: 'BadRequest', errors: [{ field: `line ${line}` }] });
});

it('I4 a workspace that is a link is not followed', async () => {
  const { at } = await withFiles({});
  await ada.post(`${at}/state`, { resume_context: { files_modified_this_session: ['passwd'] } });
  await symlink('/etc', path.join(userFolder(workspaces, 'ada'), `place-${made}`));
  for (const route of ['/resume', '/sessions']) {
    expect(await ada.post(at + route, { agent: 'worker' })).toMatchObject({
      status: 422,
      body: { code: 'WorkspaceNotUsable' },
    });
  }
  expect((await ada.get(at)).body.sessions).toEqual([]);
});

it('I7 T9 a session that joins works in the initiative’s workspace, which outlives it', async () => {
  const { at, root } = await withFiles({ 'a.ts': '' });
  const metadata = { initiative_id: at.split('/').at(-1) };
  const { body } = await ada.post('/api/sessions', { metadata });
  expect(body.chat.workspace_root).toBe(root);
  expect((await ada.delete(`/api/sessions/${body.session.session_id}`)).status).toBe(204);
  const removed = async () => {
    const { rows } = await db.query<{ folder: string }>('SELECT folder FROM erasures WHERE folder IS NOT NULL');
    return rows.some(({ folder }) => root.endsWith(`/${folder}`));
  };
  expect(await removed()).toBe(false);
  expect((await ada.delete('/api/users/me')).status).toBe(204);
  expect(await removed()).toBe(true);
});
