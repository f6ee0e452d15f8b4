// Two installations, each with its own database, in one Temporal namespace.
import { Connection } from '@temporalio/client';
import pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { claimTaskQueue, refuseForeignTaskQueue } from '../../config/claim-task-queue.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelServer, startModelServer } from '../../tools/test-kit/model-server.ts';
import type { FreshNamespace } from '../../tools/test-kit/namespaces.ts';
import { promised } from '../../tools/test-kit/patient.ts';
import { type Processes, processesOn } from '../../tools/test-kit/processes.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';

const TURN_MS = promised(2_000);

interface Installation extends Processes {
  id: string;
  /** A client of the installation, on a task queue. */
  clientOn(taskQueue: string): PerdureClient;
}

let servers: FreshNamespace;
let model: ModelServer;
let one: Installation;
let other: Installation;
beforeAll(async () => {
  servers = await freshNamespace();
  model = await startModelServer((request) => [say(`about ${lastUserText(request)}`)]);
  afterFile(() => model.close());
  [one, other] = [await install(), await install()];
});

/** A database of its own. Those of tests are copies of one, which share the copied id. */
async function install(): Promise<Installation> {
  const databaseUrl = await freshDatabase();
  const db = new pg.Client({ connectionString: databaseUrl });
  await db.connect();
  const { rows } = await db.query<{ id: string }>('UPDATE installation SET id = gen_random_uuid() RETURNING id');
  await db.end();
  const { address, namespace, client: temporal } = servers;
  const clientOn = (taskQueue: string) => {
    const client = createClient({ database: databaseUrl, temporal, taskQueue });
    afterFile(() => client.end());
    return client;
  };
  return { id: rows[0]!.id, clientOn, ...(await processesOn({ databaseUrl, address, namespace }, model.url)) };
}

/** A turn in a new session. Returns its text and how long it took, in milliseconds. */
async function turn(client: PerdureClient, about: string): Promise<{ text: string; ms: number }> {
  const { session } = await client.openSession('ada', { agent: 'site-builder' });
  const from = performance.now();
  const { run_seq } = await client.submit('ada', session.session_id, { text: about });
  let text = '';
  for await (const chunk of client.follow('ada', session.session_id, run_seq)) {
    if (chunk.type === 'text-delta') text += chunk.delta;
  }
  return { text, ms: performance.now() - from };
}

it('W7 two installations in one namespace: the second worker on a task queue exits 1, and no turn of the first is late', async () => {
  await one.worker();
  const client = one.clientOn('perdure');
  await turn(client, 'nothing yet');
  const start = { isOver: false };
  const refused = other
    .worker()
    .then(() => 'it started', String)
    .finally(() => (start.isOver = true));
  const late: unknown[] = [];
  let turns = 0;
  for (; !start.isOver; turns += 1) {
    const { text, ms } = await turn(client, `it ${turns}`);
    if (text !== `about it ${turns}` || ms > TURN_MS) late.push({ turns, text, ms });
  }
  const output = await refused;
  expect(output).toContain('exit code 1');
  expect(output).toContain('PERDURE_TASK_QUEUE: expected the name of a task queue that no other installation uses');
  expect(output).toContain(`belongs to the installation ${one.id}, and this database is that of ${other.id}`);
  expect(turns).toBeGreaterThan(3);
  expect(late).toEqual([]);

  const host = await other.host();
  expect(await host.exited).toMatchObject({ code: 1 });
  expect((await host.logs()).at(-1)?.msg).toContain(`belongs to the installation ${one.id}, and`);

  await other.worker({ PERDURE_TASK_QUEUE: 'of-the-other' });
  const both = await Promise.all([turn(client, 'mine'), turn(other.clientOn('of-the-other'), 'yours')]);
  expect(both.map(({ text }) => text)).toEqual(['about mine', 'about yours']);
});

it('W7 of workers that start at once, only those of one installation get the task queue; it is free once its marker is terminated', async () => {
  const { address, namespace, client } = servers;
  const connection = await Connection.connect({ address });
  afterFile(() => connection.close());
  const usedBy = ({ id }: Installation) => ({ namespace, taskQueue: 'wanted.by:all', installation: id });
  await refuseForeignTaskQueue(client, usedBy(one));
  const workers = [one, other, one, other, one, other];
  const claims = await Promise.allSettled(workers.map((worker) => claimTaskQueue(connection, usedBy(worker))));
  const got = new Set(workers.filter((_, n) => claims[n]?.status === 'fulfilled'));
  expect(got.size).toBe(1);
  expect(claims.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  const [winner, loser] = got.has(one) ? [one, other] : [other, one];
  await expect(claimTaskQueue(connection, usedBy(loser))).rejects.toThrow(`installation ${winner.id}, and`);
  await expect(refuseForeignTaskQueue(client, usedBy(loser))).rejects.toThrow('PERDURE_TASK_QUEUE');

  await client.workflow.getHandle('perdure-task-queue-wanted.by:all').terminate();
  await claimTaskQueue(connection, usedBy(loser));
  await expect(claimTaskQueue(connection, usedBy(winner))).rejects.toThrow(`installation ${loser.id}, and`);
});
