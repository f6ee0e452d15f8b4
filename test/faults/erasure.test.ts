// A session is erased while it is active: nothing of it is written afterwards, and everything that it started ends.
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { eventsOf, startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { Gate } from '../../tools/test-kit/gate.ts';

const CANARY = 'canary-of-ada';
let runtime: TestRuntime;
let host: TestHost;
let late: Gate;

beforeAll(async () => {
  runtime = await startRuntime({
    settings: { sweepIntervalMs: 50, retentionRefusalsMs: 3_600_000, retentionOutputsMs: 7_200_000 },
    script: async function* () {
      yield say(`${CANARY} said`);
      await late.pass();
      yield say(` and more of ${CANARY}`);
      yield hang();
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
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
  return { caller, id, folder, readers: Promise.all(readers) };
}

async function lastEventOf(response: Response): Promise<unknown> {
  let last: unknown;
  for await (const { data } of eventsOf(response)) last = data;
  return last;
}

async function expectGone({ caller, id, folder, readers }: Awaited<ReturnType<typeof atWork>>) {
  late.open();
  expect((await caller.get(`/api/sessions/${id}`)).status).toBe(404);
  expect((await caller.post(`/api/sessions/${id}/messages`, { text: CANARY })).status).toBe(404);
  expect(await readers).toMatchObject([{ code: 'SessionNotFound' }, { type: 'error' }]);
  expect(host.logs.filter(({ level }) => level >= 50)).toEqual([]);
  await eventually(() => expect(existsSync(folder)).toBe(false));
  await eventually(async () => {
    const { status } = await runtime.temporal.workflow.getHandle(id).describe();
    // Failed: a late wake-up started it again, and it found no session.
    expect(['TERMINATED', 'FAILED']).toContain(status.name);
  });
  await eventually(async () =>
    expect((await tablesWith(runtime.db, id)).filter((name) => name !== 'erasures')).toEqual([]),
  );
  expect(await tablesWith(runtime.db, CANARY)).toEqual([]);
}

it('T9 a session that is erased while it streams leaves no text, no file and no workflow', async () => {
  const session = await atWork('ada');
  expect((await session.caller.delete(`/api/sessions/${session.id}`)).status).toBe(204);
  await expectGone(session);
  expect((await session.caller.delete(`/api/sessions/${session.id}`)).status).toBe(404);
});

it('T9 erasing a user removes everything, also of a streaming session, and can be repeated', async () => {
  const session = await atWork('bob');
  for (let times = 0; times < 2; times += 1) {
    expect((await session.caller.delete('/api/users/me')).status).toBe(204);
  }
  await expectGone(session);
  expect(await tablesWith(runtime.db, 'bob')).toEqual([]);
});

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
