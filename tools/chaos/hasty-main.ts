// A worker that publishes to readers before it commits. See breaks.ts.
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type pg from 'pg';
import { loadAgents } from '../../agent/loading/agent-registry.ts';
import { createModels } from '../../agent/models/models.ts';
import type { Bus } from '../../bus/bus.ts';
import { createPostgresBus } from '../../bus/postgres.ts';
import { parseConfig, requireDatabase } from '../../config/config.ts';
import { createLogger } from '../../config/log.ts';
import { temporalConnectConfig } from '../../config/temporal.ts';
import { createPool } from '../../store/pool.ts';
import { createWorker } from '../../worker/create.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';

const STREAMING = new Set(['call append_stream', 'call append_streams', 'call settle_step']);
/** About as long as a commit takes on a busy disk. */
const COMMIT_MS = 30;

/** Publishes before the write instead of after it. */
function hasty(db: pg.Pool, bus: Bus): Bus {
  const query = db.query.bind(db) as (...args: unknown[]) => Promise<unknown>;
  db.query = (async (...given: unknown[]) => {
    const { name = '', values = [] } = given[0] as { name?: string; values?: unknown[] };
    if (STREAMING.has(name)) {
      const [sessions, runs] = values.map((value) => [value].flat());
      for (const [index, session] of sessions!.entries())
        bus.publish({ session: String(session), run: Number(runs![index]), kind: 'stream' });
      await delay(COMMIT_MS);
    }
    return query(...given);
  }) as typeof db.query;
  return { ...bus, takeBatch: () => false, publish: (pointer) => pointer.kind !== 'stream' && bus.publish(pointer) };
}

const config = requireDatabase(parseConfig(process.env));
const log = createLogger('worker', config);
const { connectionOptions, namespace } = temporalConnectConfig(config);
const agents = await loadAgents(config.agentsModule, []);
const db = createPool(config.databaseUrl);
const bus = hasty(db, createPostgresBus({ connectionString: config.directDatabaseUrl }));
const [connection, clientConnection] = await Promise.all([
  NativeConnection.connect(connectionOptions),
  Connection.connect(connectionOptions),
]);
const worker = await createWorker({
  ...{ connection, clientConnection, namespace, db, directDatabaseUrl: config.directDatabaseUrl, bus, log },
  agents,
  models: createModels({ ...config, defaultModel: config.model }),
  settings: { ...config, providerAttempts: 6 },
  workflowBundle: await workflowBundle(path.join(config.dir, 'cache')),
});
process.once('SIGTERM', () => worker.shutdown());
const running = worker.run();
log.info('ready');
await running;
process.exit(0);
