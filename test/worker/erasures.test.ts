import { Metadata, status } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freePort, freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { DELETION, untilDeleted, WITH_DELETION } from '../../tools/test-kit/until-deleted.ts';
import { erasing } from '../../worker/periodic/erasing.ts';
import { SESSION_WORKFLOW } from '../../workflows/definitions.ts';

it('T9 a worker that stops while Temporal does not answer leaves the remaining erasures to other workers', async () => {
  const db = patientPool(await freshDatabase());
  const connection = Connection.lazy({ address: `127.0.0.1:${await freePort()}` });
  afterFile(async () => {
    await connection.close();
    await db.end();
  });
  for (const session of ['ses_1', 'ses_2', 'ses_3']) await db.query('SELECT queue_erasure($1, NULL)', [session]);
  const stopping = new AbortController();
  const failed: unknown[] = [];
  // The first failure is logged three seconds after the worker has begun.
  const write = (line: string) => {
    failed.push(JSON.parse(line));
    stopping.abort();
  };
  const log = pino({}, { write });
  await erasing({ db, client: new Client({ connection }), log, workspaces: scratchDir() })(stopping.signal);
  expect(failed).toMatchObject([{ session: expect.stringMatching(/^ses_[123]$/) as string }]);
  const { rows } = await db.query('SELECT workflow_id FROM erasures ORDER BY 1');
  expect(rows).toHaveLength(3);
});

/** The executions of two sessions whose workflow ran twice and runs again, named with their user; nobody carries them out. */
async function executions() {
  const { client } = await freshNamespace();
  const db = patientPool(await freshDatabase());
  afterFile(() => db.end());
  const started: { workflowId: string; runId: string }[] = [];
  for (const workflowId of ['ses_1', 'ses_1', 'ses_1', 'ses_2']) {
    await client.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => {});
    const { firstExecutionRunId: runId } = await client.workflow.start(SESSION_WORKFLOW, {
      ...{ workflowId, taskQueue: 'nobody', staticSummary: 'a session of ada' },
      searchAttributes: { PerdureUser: ['ada'] },
    });
    started.push({ workflowId, runId });
  }
  const listed = async () => {
    const found = [];
    for await (const { runId } of client.workflow.list({ query: `PerdureUser = 'ada'` })) found.push(runId);
    return found;
  };
  await eventually(async () => expect(await listed()).toHaveLength(started.length));
  for (const workflow of ['ses_1', 'ses_2']) await db.query('SELECT queue_erasure($1, NULL)', [workflow]);
  const logged: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line) => void logged.push(JSON.parse(line) as (typeof logged)[number]) });
  const left = async () => (await db.query('SELECT FROM erasures')).rowCount;
  const due = () => db.query('UPDATE erasures SET due_at = clock_timestamp()');
  return { client, db, log, logged, started, listed, left, due };
}

it(
  'T9 an erasure deletes every execution of its workflow, with the id of the user; others stay',
  WITH_DELETION,
  async () => {
    const { client, db, log, logged, started, listed, left, due } = await executions();
    await db.query(`DELETE FROM erasures WHERE workflow_id = 'ses_2'`);
    const pass = erasing({ db, client, log, workspaces: scratchDir() });
    const { signal } = new AbortController();
    await eventually(async () => {
      await due();
      await pass(signal);
      expect(await left()).toBe(0);
    }, DELETION);
    const [other] = started.splice(-1);
    for (const { workflowId, runId } of started) await untilDeleted(client, workflowId, runId);
    await eventually(async () => expect(await listed()).toEqual([other!.runId]), DELETION);
    expect(logged).toEqual([]);
  },
);

it('T9 an erasure ends if Temporal does not let workers delete workflows, and says so once', async () => {
  const { client, db, log, logged, started, left, due } = await executions();
  const refused = { code: status.PERMISSION_DENIED, details: 'Request unauthorized.', metadata: new Metadata() };
  vi.spyOn(client.workflowService, 'deleteWorkflowExecution').mockRejectedValue(Object.assign(new Error(), refused));
  const pass = erasing({ db, client, log, workspaces: scratchDir() });
  for (let passes = 0; passes < 2; passes += 1) {
    await due();
    await pass(new AbortController().signal);
  }
  expect(await left()).toBe(0);
  for (const { workflowId, runId } of started) {
    const { status: state } = await client.workflow.getHandle(workflowId, runId).describe();
    expect(state.name).toBe('TERMINATED');
  }
  const msg = expect.stringMatching(/^Temporal does not let this worker delete workflows/) as string;
  expect(logged).toMatchObject([{ level: 50, msg }]);
});
