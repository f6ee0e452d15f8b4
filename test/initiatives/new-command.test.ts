// A command of an initiative is an entry of the table, a body, a method of the client and an SQL function. This test adds one to a
// running system: host and the worker's workflow bundle use the table with the new entry.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { newId } from '../../domain/ids.ts';
import type { InitiativeArgs, InitiativeCommandEntry } from '../../domain/initiatives/initiative-commands.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { planned } from '../../tools/test-kit/initiative.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { variant } from '../histories/variant.ts';

// Other files of this process have loaded these without the entry, or are going to.
vi.hoisted(() => vi.resetModules());
afterAll(() => {
  vi.doUnmock(import('../../domain/initiatives/initiative-commands.ts'));
  vi.doUnmock(import('../../wire/initiative-requests.ts'));
  vi.doUnmock(import('../../client/initiatives/initiatives.ts'));
  vi.resetModules();
});

const ENTRY: InitiativeCommandEntry = vi.hoisted(() => ({
  summary: 'Ponder a task',
  path: '/tasks/:task_id/ponder',
  answer: 'task',
  ids: ['task_id', 'work_session'],
  errors: ['TaskNotFound', 'TaskAssigned'],
}));

vi.mock(import('../../domain/initiatives/initiative-commands.ts'), async (original) => {
  const table = await original();
  Object.assign(table.INITIATIVE_COMMANDS, { ponder: ENTRY });
  const names = Object.keys(table.INITIATIVE_COMMANDS) as typeof table.INITIATIVE_COMMAND_NAMES;
  return { ...table, INITIATIVE_COMMAND_NAMES: names };
});

vi.mock(import('../../wire/initiative-requests.ts'), async (original) => {
  const requests = await original();
  Object.assign(requests.INITIATIVE_BODIES, { ponder: requests.workSessionBody.extend({ thought: z.string() }) });
  return requests;
});

vi.mock(import('../../client/initiatives/initiatives.ts'), async (original) => {
  const { Initiatives } = await original();
  type Methods = { task(command: object, args: object, options: object): Promise<object> };
  Object.assign(Initiatives.prototype, {
    ponder(this: Methods, user: string, id: string, task_id: string, given: object, options: object) {
      return this.task({ user, id, name: 'ponder' }, { ...given, task_id }, options);
    },
  });
  return { Initiatives };
});

/** An SQL function that changes nothing. */
const FUNCTION = `
  CREATE FUNCTION ini_ponder(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
  BEGIN
    RETURN coalesce((held_task(p_initiative, p_args)).refusal, task_result('task_pondered', p_args));
  END $$`;

let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  const last = '} as const satisfies Record<string, InitiativeCommandEntry>;';
  const workflowBundle = await variant('domain/initiatives/initiative-commands.ts', [
    last,
    `ponder: ${JSON.stringify(ENTRY)}, ${last}`,
  ]);
  runtime = await startRuntime();
  await runtime.db.query(FUNCTION);
  await runtime.first.stop();
  await runtime.startWorker({ workflowBundle });
  host = await startHost({ databaseUrl: runtime.databaseUrl, temporal: runtime.temporal });
});

it('H12 I3 an entry, a body, a method and an SQL function make a route, an update and an operation of OpenAPI', async () => {
  const ada = host.as('ada');
  const { body } = await ada.post('/api/initiatives', planned([['one', 'two']]));
  const id = body.initiative.initiative_id as string;
  const at = `/api/initiatives/${id}`;
  const work_session = (await ada.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;
  const { task_id } = (await ada.post(`${at}/tasks/next`, { work_session })).body as { task_id: string };
  const ponder = (given: object, key = newId('cmd')) =>
    ada.post(`${at}/tasks/${task_id}/ponder`, given, { 'idempotency-key': key });

  const key = newId('cmd');
  const done = await ponder({ work_session, thought: 'hm' }, key);
  expect(done).toMatchObject({ status: 200, body: { task_id, assigned_to: work_session } });
  expect((await ponder({ work_session, thought: 'hm' }, key)).body).toEqual(done.body);
  expect(await ponder({ work_session, thought: 'no' }, key)).toMatchObject({
    status: 422,
    body: { code: 'KeyReused' },
  });
  expect(await ponder({ work_session })).toMatchObject({ status: 400, body: { errors: [{ field: 'thought' }] } });
  expect(await ponder({ work_session: 'session-009', thought: 'hm' })).toMatchObject({
    status: 409,
    body: { code: 'TaskAssigned' },
  });

  const { body: document } = await ada.get('/openapi.json');
  const operation = document.paths['/api/initiatives/{id}/tasks/{task_id}/ponder'].post;
  expect(operation).toMatchObject({ operationId: 'ponder', summary: ENTRY.summary, tags: ['Initiatives'] });

  const handle = runtime.temporal.workflow.getHandle(id);
  const args: [InitiativeArgs] = [{ command_id: newId('cmd'), task_id, work_session }];
  expect(await handle.executeUpdate('ponder', { args })).toMatchObject({ ok: true, task_id });
  const { rows } = await runtime.db.query<{ actor: string }>(
    `SELECT actor FROM initiative_events WHERE initiative_id = $1 AND kind = 'task_pondered' ORDER BY seq`,
    [id],
  );
  expect(rows.map(({ actor }) => actor)).toEqual(['user', 'operator']);
});
