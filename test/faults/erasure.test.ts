// A session is erased while it is active: nothing of it is written afterwards, and everything that it started ends.
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import type { Snapshots } from '../../agent/snapshots.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { eventsOf, startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { DELETION, untilDeleted, WITH_DELETION } from '../../tools/test-kit/until-deleted.ts';
import { userFolder, workspaceRoot } from '../../workspaces/paths.ts';

const CANARY = 'canary-of-ada';
let runtime: TestRuntime;
let host: TestHost;
let late: Gate;
/** The folders that were written to after the gate. */
let written: PromiseWithResolvers<readonly string[]>;
/** The hook of the test at hand. */
let take: Snapshots['take'];

const linger = defineTool({
  name: 'linger',
  description: 'Ignores its signal, and writes late.',
  input: z.object({}),
  execute: (_input, ctx) => writeLate(ctx.workspaceRoot),
});
const LINGER = 'linger, please';
/** Answered by silence: the hook is called beside the model, and alone shall reach the gate. */
const HUSH = 'hush, please';

beforeAll(async () => {
  runtime = await startRuntime({
    settings: { sweepIntervalMs: 50, retentionRefusalsMs: 3_600_000, retentionOutputsMs: 7_200_000 },
    agents: [defineAgent({ ...siteBuilder, tools: [...siteBuilder.tools, linger] })],
    hooks: { snapshots: { take: (...place) => take(...place), restore: () => Promise.resolve() } },
    script: async function* (request) {
      if (lastUserText(request) === LINGER) {
        yield callTool('call_1', 'linger', {});
        return;
      }
      if (lastUserText(request) === HUSH) {
        yield hang();
        return;
      }
      yield say(`${CANARY} said`);
      await late.pass();
      yield say(` and more of ${CANARY}`);
      yield hang();
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
});

beforeEach(() => {
  take = () => Promise.resolve(null);
});

/** A streaming session with a file, a queued message and readers. */
async function atWork(user: string) {
  late = new Gate();
  const caller = host.as(user);
  const { session } = (await caller.post('/api/sessions', { metadata: { note: CANARY } })).body as {
    session: { session_id: string; project_id: null; workspace_root: null };
  };
  const id = session.session_id;
  const folder = workspaceRoot(runtime.workspaces, { ...session, session_id: id, user_id: user });
  await caller.post(`/api/sessions/${id}/messages`, { text: `${CANARY} asked` });
  await late.reached;
  await eventually(async () => expect(await tablesWith(runtime.db, `${CANARY} said`)).not.toEqual([]));
  await caller.post(`/api/sessions/${id}/messages`, { text: `${CANARY} queued` });
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'index.html'), CANARY);
  const streams = [`/api/sessions/${id}/events`, `/api/chat/${id}/stream`].map((at) => caller.fetch(at));
  const readers = (await Promise.all(streams)).map(lastEventOf);
  // A worker may run ahead of the workflow.
  const { runId } = await eventually(() => runtime.temporal.workflow.getHandle(id).describe());
  return { caller, id, runId, folder, readers: Promise.all(readers) };
}

async function lastEventOf(response: Response): Promise<unknown> {
  let last: unknown;
  for await (const { data } of eventsOf(response)) last = data;
  return last;
}

/** Makes the next passes due at once, and waits until the queue is empty. */
async function passed(): Promise<void> {
  await eventually(async () => {
    await runtime.db.query('UPDATE erasures SET due_at = clock_timestamp()');
    expect((await runtime.db.query('SELECT FROM erasures')).rowCount).toBe(0);
  }, DELETION);
}

async function expectGone({ caller, id, runId, folder, readers }: Awaited<ReturnType<typeof atWork>>) {
  late.open();
  expect((await caller.get(`/api/sessions/${id}`)).status).toBe(404);
  expect((await caller.post(`/api/sessions/${id}/messages`, { text: CANARY })).status).toBe(404);
  expect(await readers).toMatchObject([{ code: 'SessionNotFound' }, { type: 'error' }]);
  expect(host.logs.filter(({ level }) => level >= 50)).toEqual([]);
  await eventually(() => expect(existsSync(folder)).toBe(false));
  // A late wake-up may have started it again: such an execution finds no session, fails, and is deleted by a later pass.
  const { workflow } = runtime.temporal;
  await untilDeleted(runtime.temporal, id, runId);
  await eventually(async () => {
    for await (const listed of workflow.list({ query: `WorkflowId = '${id}'` })) expect(listed.runId).not.toBe(runId);
  }, DELETION);
  await eventually(async () =>
    expect((await tablesWith(runtime.db, id)).filter((name) => name !== 'erasures')).toEqual([]),
  );
  expect(await tablesWith(runtime.db, CANARY)).toEqual([]);
}

it('T9 a session that is erased while it streams leaves no text, no file and no workflow', WITH_DELETION, async () => {
  const session = await atWork('ada');
  expect((await session.caller.delete(`/api/sessions/${session.id}`)).status).toBe(204);
  await expectGone(session);
  expect((await session.caller.delete(`/api/sessions/${session.id}`)).status).toBe(404);
});

it(
  'T9 erasing a user removes everything, also of a streaming session, and can be repeated',
  WITH_DELETION,
  async () => {
    const session = await atWork('bob');
    for (let times = 0; times < 2; times += 1) {
      expect((await session.caller.delete('/api/users/me')).status).toBe(204);
    }
    await expectGone(session);
    expect(await tablesWith(runtime.db, 'bob')).toEqual([]);
  },
);

/** A session whose tool or hook waits at the gate and has been erased; all of its removals are over. */
async function erasedAtGate(user: string, text: string) {
  late = new Gate();
  written = Promise.withResolvers();
  const caller = host.as(user);
  const { session_id: id } = (await caller.post('/api/sessions', {})).body.session as { session_id: string };
  await caller.post(`/api/sessions/${id}/messages`, { text });
  await late.reached;
  expect((await caller.delete(`/api/sessions/${id}`)).status).toBe(204);
  await passed();
  const home = userFolder(runtime.workspaces, user);
  const folders = [path.join(home, id), path.join(home, '.snapshots', id)];
  expect(folders.filter((each) => existsSync(each))).toEqual([]);
  return folders;
}

/** What writes late, whatever its signal says. */
async function writeLate(...folders: readonly string[]): Promise<void> {
  await late.pass();
  for (const folder of folders) {
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, 'late.txt'), CANARY);
  }
  written.resolve(folders);
}

it(
  'T9 what a tool writes after the last removal, whatever its signal says, is removed when it ends',
  WITH_DELETION,
  async () => {
    const [workspace] = await erasedAtGate('fay', LINGER);
    late.open();
    expect(await written.promise).toEqual([workspace]);
    await eventually(() => expect(existsSync(workspace!)).toBe(false));
  },
);

it(
  'T9 what a hook writes after the last removal, whatever its signal says, is removed when it ends',
  WITH_DELETION,
  async () => {
    take = async ({ workspaceRoot: workspace, folder }) => writeLate(workspace, folder).then(() => null);
    const folders = await erasedAtGate('gil', HUSH);
    late.open();
    expect(await written.promise).toEqual(folders);
    await eventually(() => expect(folders.filter((each) => existsSync(each))).toEqual([]));
  },
);

it('T9 another user’s session cannot be erased', async () => {
  const { session } = (await host.as('carl').post('/api/sessions', {})).body;
  expect((await host.as('eve').delete(`/api/sessions/${session.session_id as string}`)).status).toBe(404);
  expect((await host.as('eve').delete('/api/users/me')).status).toBe(204);
  expect((await host.as('carl').get(`/api/sessions/${session.session_id as string}`)).status).toBe(200);
});

it('T9 workers delete what has expired, by the configured ages', async () => {
  const { db } = runtime;
  const { session_id: id } = (await host.as('dora').post('/api/sessions', {})).body.session as { session_id: string };
  await db.query(
    `INSERT INTO session_events (session_id, seq, kind, actor, data, at)
     SELECT $1, n, CASE n WHEN 4 THEN 'reason' ELSE 'refused' END, 'user', '{}', now() - (4 - n) * interval '59 minutes'
       FROM generate_series(2, 4) AS n`,
    [id],
  );
  await db.query(
    `INSERT INTO tool_outputs SELECT $1, 'call_' || hours, 'x', now() - hours * interval '1 hour' FROM unnest('{1,3}'::int[]) AS hours`,
    [id],
  );
  await db.query(
    `INSERT INTO cached_results SELECT 'session', $1, 'tool', 'key_' || minutes, '1', now() + minutes * interval '1 minute'
       FROM unnest('{-1,1}'::int[]) AS minutes`,
    [id],
  );
  const left = async () => {
    const { rows } = await db.query<{ left: string }>(
      `SELECT seq::text AS left FROM session_events WHERE session_id = $1
       UNION ALL SELECT tool_call_id FROM tool_outputs WHERE session_id = $1
       UNION ALL SELECT key FROM cached_results WHERE owner = $1`,
      [id],
    );
    return rows.map((row) => row.left);
  };
  await eventually(async () => expect(await left()).toEqual(['1', '3', '4', 'call_1', 'key_1']));
});
