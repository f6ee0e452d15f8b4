// A worker that kills itself at chosen database calls, like a crash. See worker-process.ts.
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { agentRegistry } from '../../agent/loading/agent-registry.ts';
import { createModels } from '../../agent/models/models.ts';
import { createPostgresBus } from '../../bus/postgres.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { createWorker } from '../../worker/create.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { useOwnWorkflowThreads } from '../../worker/sandbox/own-workflow-threads.ts';
import { subagentAgents } from '../subagents/agents.ts';
import faultAgent, { unsummarizedAgents } from './agent.ts';
import { payingAgent } from './paying.ts';
import { aroundCalls, sessionsOf, type SqlCall } from './sql-calls.ts';
import type { WorkerProcess } from './worker-process.ts';

const options = JSON.parse(process.env['PERDURE_TEST_WORKER']!) as WorkerProcess;
// Written before the process crashes.
const log = pino(pino.destination({ dest: 1, sync: true }));
const db = patientPool(options.databaseUrl);
const points = new Map(Object.entries(options.crashesAt));
const arrived = new Set<string>();
const arrive = (when: 'before' | 'after') => (call: SqlCall) => {
  const sessions = sessionsOf(call);
  const isShared = sessions.length > 1;
  // Nothing happens to this session until the crash, whoever calls. Other sessions of a shared statement go on.
  if (!isShared && sessions.some((session) => arrived.has(session))) return new Promise(() => {});
  const session = sessions.find((each) => !arrived.has(each) && points.get(each)?.[when] === call.name);
  if (session === undefined || !JSON.stringify(call.args).includes(points.get(session)!.holding ?? ''))
    return undefined;
  arrived.add(session);
  log.info({ session }, 'arrived');
  if (arrived.size < points.size) return isShared ? undefined : new Promise(() => {});
  // A process that is only stopped goes on.
  points.clear();
  arrived.clear();
  return process.kill(process.pid, options.signal);
};
aroundCalls(db, { before: arrive('before'), after: arrive('after') });
const [connection, clientConnection] = await Promise.all([
  NativeConnection.connect({ address: options.address }),
  Connection.connect({ address: options.address }),
]);
useOwnWorkflowThreads();
const worker = await createWorker({
  connection,
  clientConnection,
  namespace: options.namespace,
  db,
  directDatabaseUrl: options.databaseUrl,
  bus: createPostgresBus({ connectionString: options.databaseUrl }),
  agents: agentRegistry([faultAgent, payingAgent, ...unsummarizedAgents, ...subagentAgents]),
  models: createModels({ openaiApiKey: 'test', openaiBaseUrl: options.modelUrl, defaultModel: 'openai/test' }),
  log,
  settings: options.settings,
  workflowBundle: await workflowBundle(path.resolve('node_modules/.cache/perdure')),
});
process.once('SIGTERM', () => worker.shutdown());
const running = worker.run();
log.info('ready');
await running;
process.exit(0);
