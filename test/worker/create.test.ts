// `createWorker` is a library function: it runs in the user's process.
import path from 'node:path';
import threads from 'node:worker_threads';
import { Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import { agentRegistry } from '../../agent/loading/agent-registry.ts';
import { createModels } from '../../agent/models/models.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { SETTINGS } from '../../tools/test-kit/system.ts';
import { createWorker } from '../../worker/create.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';

// Other files of this process replace globals, once: as far as these modules know, nobody has.
vi.hoisted(() => vi.resetModules());

/** Creates a worker with servers of its own, runs it until it has stopped, and calls `created` in between. */
async function withWorker(settings: { sessionCacheBytes?: number }, created: () => void): Promise<void> {
  quietRuntime();
  const databaseUrl = await freshDatabase();
  const { address, namespace } = await freshNamespace();
  const db = patientPool(databaseUrl);
  const connection = await NativeConnection.connect({ address });
  const clientConnection = await Connection.connect({ address });
  try {
    const worker = await createWorker({
      ...{
        connection,
        clientConnection,
        namespace,
        db,
        directDatabaseUrl: databaseUrl,
        bus: createMemoryBus(),
        log: pino({ level: 'silent' }),
      },
      agents: agentRegistry([siteBuilder]),
      models: createModels({ defaultModel: 'openai/test' }),
      settings: { ...SETTINGS, workspaces: 'unused', ...settings },
      workflowBundle: await workflowBundle(path.resolve('node_modules/.cache/perdure')),
    });
    created();
    const running = worker.run();
    worker.shutdown();
    await running;
  } finally {
    await Promise.all([connection.close(), clientConnection.close(), db.end()]);
  }
}

it('W1 createWorker replaces no global of the process it runs in', async () => {
  const before = { ...threads };
  let after = before;
  await withWorker({}, () => (after = { ...threads }));
  expect(after).not.toBe(before);
  expect(after).toEqual(before);
  expect(after.Worker).toBe(before.Worker);
});

it('W1 the memory of the session cache limits the number of cached sessions', async () => {
  const create = vi.spyOn(Worker, 'create');
  let cached: (number | undefined)[] = [];
  await withWorker({ sessionCacheBytes: 4 * 1024 ** 2 }, () => {
    cached = create.mock.calls.map(([options]) => options.maxCachedWorkflows);
  });
  create.mockRestore();
  expect(cached).toEqual([16]);
});
