// A command is one entry of the table and one SQL function. This test adds one to a running system: client, host and the
// worker's workflow bundle use the table with the new entry.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { CommandEntry } from '../../domain/command-table.ts';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { signals } from '../../workflows/definitions.ts';
import { variant } from '../histories/variant.ts';

// Other files of this process have loaded the table without the entry, or are going to.
vi.hoisted(() => vi.resetModules());
afterAll(() => {
  vi.doUnmock(import('../../domain/command-table.ts'));
  vi.resetModules();
});

const ENTRY: CommandEntry = vi.hoisted(() => ({
  summary: 'Compact up to a message',
  method: 'post',
  path: '/messages/:message_id/ponder/:point_id',
  arguments: { message_id: 'message', point_id: 'id', abort: 'flag?', how: ['softly', 'firmly'], reason: 'reason?' },
  outcome: { aborted: 'flag', run_seq: 'aborted run', dropped: 'dropped messages' },
  errors: ['RunInFlight'],
}));

vi.mock(import('../../domain/command-table.ts'), async (original) => {
  const table = await original();
  Object.assign(table.COMMANDS, { ponder: ENTRY });
  const names = Object.keys(table.COMMANDS) as typeof table.COMMAND_NAMES;
  return {
    ...table,
    SIGNALS: [...table.SIGNALS, 'ponder'] as never,
    COMMAND_NAMES: names,
  };
});

/** An SQL function that aborts the run if requested, and returns its arguments. */
const FUNCTION = `
  CREATE FUNCTION cmd_ponder(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
  DECLARE
    v_run integer;
  BEGIN
    IF p_args ->> 'abort' <> 'true' AND head_run(p_session) IS NOT NULL THEN
      RETURN '{"code": "RunInFlight"}';
    END IF;
    v_run := request_abort(p_session);
    RETURN jsonb_build_object('kind', 'compacted', 'data', jsonb_build_object('args', p_args),
      'outcome', jsonb_build_object('aborted', v_run IS NOT NULL, 'run_seq', v_run, 'dropped', '[]'::jsonb));
  END $$`;

const CANARY = 'a reason that Temporal must not see';

let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  const last = '} as const satisfies Record<string, CommandEntry>;';
  const signalled = "'rewind', 'unrewind'] as const";
  const workflowBundle = await variant(
    'domain/command-table.ts',
    [last, `ponder: ${JSON.stringify(ENTRY)}, ${last}`],
    [signalled, signalled.replace(']', ", 'ponder']")],
  );
  runtime = await startRuntime({ script: () => [say('Once upon'), hang()] });
  await runtime.db.query(FUNCTION);
  await runtime.first.stop();
  await runtime.startWorker({ workflowBundle });
  host = await startHost({ databaseUrl: runtime.databaseUrl, temporal: runtime.temporal });
});

async function log(session: TestSession) {
  const { rows } = await runtime.db.query<{ kind: string; actor: string; data: Record<string, unknown> }>(
    'SELECT kind, actor, data FROM session_events WHERE session_id = $1 ORDER BY seq',
    [session.id],
  );
  return rows;
}

it('H2 H4 an entry and an SQL function make a route, an update, a client method and an operation of OpenAPI', async () => {
  const session = await TestSession.open(runtime);
  const run = await session.send('go');
  await runtime.model.request(0);
  const ada = host.as('ada');
  const path = `/api/sessions/${session.id}/messages/m1/ponder/p1`;
  expect(await ada.post(path, { how: 'softly' })).toMatchObject({ status: 409, body: { code: 'RunInFlight' } });
  expect(await ada.post(path, { how: 'wildly' })).toMatchObject({
    status: 400,
    body: { detail: 'how: expected "softly" or "firmly"' },
  });

  const key = { 'idempotency-key': newId('cmd') };
  const body = { how: 'firmly', abort: true, reason: CANARY };
  const first = await ada.post(path, body, key);
  expect(first).toMatchObject({ status: 200, body: { phase: 'chatting', aborted: true, run_seq: run, dropped: [] } });
  expect(await session.ended(run)).toMatchObject({ state: 'aborted' });
  expect((await ada.post(path, body, key)).body).toEqual(first.body);
  expect((await log(session)).slice(-2)).toMatchObject([
    { kind: 'reason', data: { text: CANARY } },
    {
      kind: 'compacted',
      actor: 'user',
      data: { args: { message_id: 'm1', point_id: 'p1', how: 'firmly', abort: true } },
    },
  ]);

  const { commands } = host.client as unknown as { commands: Record<string, (...args: unknown[]) => Promise<unknown>> };
  const outcome = await commands['ponder']!('ada', session.id, { message_id: 'm1', point_id: 'p1', how: 'softly' });
  expect(outcome).toMatchObject({ aborted: false, run_seq: null });
  await expect(commands['ponder']!('ada', session.id, { message_id: 'no id' })).rejects.toThrow('no such message');
  const { body: document } = await ada.get('/openapi.json');
  const operation = document.paths['/api/sessions/{id}/messages/{message_id}/ponder/{point_id}'].post;
  expect(operation).toMatchObject({ operationId: 'ponder', summary: ENTRY.summary });
  expect(await ada.post(path.replace(/p1$/, 'p%201'), { how: 'softly' })).toMatchObject({
    status: 400,
    body: { errors: [{ field: 'point_id' }] },
  });
  const parameters = operation.parameters as { name: string }[];
  const described = (name: string) => parameters.find((each) => each.name === name);
  expect(described('message_id')).toMatchObject({ description: 'The id of a message' });
  expect(described('point_id')).not.toHaveProperty('description');
  const { definition } = await session.handle.query<{ definition: { updateDefinitions: { name: string }[] } }>(
    '__temporal_workflow_metadata',
  );
  expect(definition.updateDefinitions.map(({ name }) => name)).toContain('ponder');
  expect(JSON.stringify(await session.handle.fetchHistory())).not.toContain(Buffer.from(CANARY).toString('base64'));
});

it('W2 the signal of its name carries it out, and a malformed one is refused and recorded', async () => {
  const session = await TestSession.open(runtime);
  await session.command({ type: 'update', name: 'abort' } as never);
  await session.handle.signal((signals as Record<string, typeof signals.rewind>)['ponder']!, {
    message_id: 'not an id',
    point_id: 'p1',
    how: 'softly',
  });
  await session.handle.signal((signals as Record<string, typeof signals.rewind>)['ponder']!, {
    message_id: 'm1',
    point_id: 'p1',
    how: 'softly',
  });
  await eventually(async () => {
    expect((await log(session)).slice(-2)).toMatchObject([
      { kind: 'refused', actor: 'operator', data: { command: 'ponder', outcome: { code: 'BadRequest' } } },
      {
        kind: 'compacted',
        actor: 'operator',
        data: { args: { message_id: 'm1', point_id: 'p1', how: 'softly', abort: false } },
      },
    ]);
  });
});
