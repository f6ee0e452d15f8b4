// `createWorker` is a library function: it runs in the user's process.
import path from 'node:path';
import threads from 'node:worker_threads';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import { createModels } from '../../agent/models.ts';
import { agentRegistry } from '../../agent/registry.ts';
import { createMemoryBus } from '../../bus/memory.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { createPool } from '../../store/db.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { SETTINGS } from '../../tools/test-kit/system.ts';
import { quietRuntime } from '../../tools/scripts/histories/quiet.ts';
import { workflowBundle } from '../../worker/bundle.ts';
import { createWorker } from '../../worker/create.ts';

// Other files of this process replace globals, once: as far as these modules know, nobody has.
vi.hoisted(() => vi.resetModules());

it('W1 createWorker replaces no global of the process it runs in', async () => {
  quietRuntime();
  const before = { ...threads };
  const databaseUrl = await freshDatabase();
  const { address, namespace } = await freshNamespace();
  const db = createPool(databaseUrl);
  const connection = await NativeConnection.connect({ address });
  const clientConnection = await Connection.connect({ address });
  try {
    const worker = await createWorker({
      ...{ connection, clientConnection, namespace, db, bus: createMemoryBus(), log: pino({ level: 'silent' }) },
      agents: agentRegistry([siteBuilder]),
      models: createModels({ defaultModel: 'openai/test' }),
      settings: { ...SETTINGS, workspaces: 'unused' },
      workflowBundle: await workflowBundle(path.resolve('node_modules/.cache/perdure')),
    });
    const after = { ...threads };
    const running = worker.run();
    worker.shutdown();
    await running;
    expect(after).toEqual(before);
    expect(after.Worker).toBe(before.Worker);
  } finally {
    await Promise.all([connection.close(), clientConnection.close(), db.end()]);
  }
});
