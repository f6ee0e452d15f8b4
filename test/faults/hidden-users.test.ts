// PERDURE_HIDE_USERS: what Temporal stores of a user, with a worker and a host that hide users.
import { createHmac, randomBytes } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { chunksOf } from '../../tools/test-kit/host.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { startModelServer } from '../../tools/test-kit/model-server.ts';
import type { FreshNamespace } from '../../tools/test-kit/namespaces.ts';
import { type HostProcess, processesOn } from '../../tools/test-kit/processes.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { allHistories } from './history.ts';

const USER = 'grace-hopper-1906';
const KEY = randomBytes(32).toString('hex');
const DIGEST = createHmac('sha256', Buffer.from(KEY, 'hex')).update(USER).digest('hex');

let servers: FreshNamespace;
let host: HostProcess;
/** A client as it was before users were hidden. */
let before: PerdureClient;
beforeAll(async () => {
  servers = await freshNamespace();
  const { address, namespace, client: temporal } = servers;
  const model = await startModelServer((request) =>
    request.messages.at(-1)?.role === 'tool' ? [say('done')] : [callTool('call_1', 'todo_add', { name: 'x' })],
  );
  afterFile(() => model.close());
  const databaseUrl = await freshDatabase();
  before = createClient({ database: databaseUrl, temporal });
  afterFile(() => before.end());
  const processes = await processesOn({ databaseUrl, address, namespace }, model.url);
  const hiding = { PERDURE_HIDE_USERS: 'true', PERDURE_HIDE_USERS_KEY: KEY, PERDURE_CONTINUE_AS_NEW_EVENTS: '20' };
  [host] = await Promise.all([
    processes.host(hiding),
    processes.worker({ ...hiding, PERDURE_SWEEP_INTERVAL: '200ms' }),
  ]);
});

/** A whole turn over HTTP. */
async function turn(session: string, id: string): Promise<void> {
  const body = {
    id: session,
    trigger: 'submit-message',
    messages: [{ id, role: 'user', parts: [{ type: 'text', text: 'x' }] }],
  };
  const headers = { 'content-type': 'application/json' };
  await chunksOf(await host.as(USER).fetch('/api/chat', { method: 'POST', headers, body: JSON.stringify(body) }));
}

async function open(): Promise<string> {
  const { body } = await host.as(USER).post('/api/sessions', {});
  return body.session.session_id as string;
}

it('W3 with PERDURE_HIDE_USERS no history contains a user’s id, and sessions are found by its digest', async () => {
  const session = await open();
  for (const id of ['m1', 'm2', 'm3', 'm4']) await turn(session, id);
  expect((await host.as(USER).post(`/api/sessions/${session}/publish`)).status).toBe(409);
  const { workflow } = servers.client;
  // Loads the session again, by the sweeper of the worker.
  await workflow.getHandle(session).terminate();
  await turn(session, 'm5');
  // A turn may be over before its workflow is started.
  await eventually(() => workflow.getHandle(session).signal('publish'));

  const query = `PerdureUser = '${DIGEST}'`;
  const executions = await eventually(async () => {
    const found: { runId: string; attributes: string }[] = [];
    for await (const { runId, typedSearchAttributes, memo } of workflow.list({ query })) {
      found.push({ runId, attributes: JSON.stringify({ typedSearchAttributes, memo }) });
    }
    // Searches see an execution a moment after it was started; on a busy machine that is long.
    expect(found.length).toBeGreaterThan(1);
    expect(found).toHaveLength((await allHistories(servers.client)).length);
    return found;
  });
  // Temporal keeps the summary of an execution that a client starts; one that continues another has none.
  const described = await Promise.all(executions.map(({ runId }) => workflow.getHandle(session, runId).describe()));
  const summaries = (await Promise.all(described.map((each) => each.staticSummary()))).filter(Boolean);
  const text = JSON.stringify([summaries, executions]);
  const histories = await allHistories(servers.client);
  for (const stored of [text, ...histories]) expect(stored).not.toContain(USER);
  expect(new Set(summaries)).toEqual(new Set([`site-builder · ${DIGEST}`]));
  expect(histories.join('\n'), 'so the search works').toContain(DIGEST);
});

it('W3 a session whose workflow was started with the user’s id keeps it while it runs', async () => {
  const userOf = async (id: string) =>
    (await servers.client.workflow.getHandle(id).describe()).searchAttributes['PerdureUser'];
  // A worker, which hides users, may start the workflow of a new session before its client does.
  const id = await eventually(async () => {
    const { session } = await before.openSession(USER, { agent: 'site-builder' });
    const { run_seq } = await before.submit(USER, session.session_id, { text: 'x' });
    for await (const _ of before.follow(USER, session.session_id, run_seq));
    expect(await userOf(session.session_id)).toEqual([USER]);
    return session.session_id;
  });
  await turn(id, 'm1');
  expect(await userOf(id)).toEqual([USER]);
  await servers.client.workflow.getHandle(id).terminate();
  await turn(id, 'm2');
  await eventually(async () => expect(await userOf(id)).toEqual([DIGEST]));
});
