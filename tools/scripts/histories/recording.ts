// Plays scenarios on its own servers, and records their histories.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pLimit from 'p-limit';
import { createDatabase } from '../../../dev/databases.ts';
import { startPostgres } from '../../../dev/postgres.ts';
import { startTemporal } from '../../../dev/temporal.ts';
import { migrate } from '../../../migrations/migrate.ts';
import faultAgent from '../../../test/faults/agent.ts';
import { quiet, type Recorded, type Scenario } from '../../../test/histories/scenario.ts';
import { fetchHistory, type History, listExecutions } from '../../../worker/replay/history.ts';
import type { NamedHistory } from '../../../worker/replay/replay.ts';
import { eventually } from '../../test-kit/eventually.ts';
import { createNamespace, uniqueName } from '../../test-kit/namespaces.ts';
import { startSystem, type SystemServers } from '../../test-kit/system.ts';
import { Pseudonyms } from './pseudonyms.ts';

const TEMPLATE = 'perdure_template';
/** Scenarios run concurrently, because most of them wait more than they compute. */
const AT_ONCE = 3;

/**
 * Plays every scenario and records the histories of its sessions, pseudonymized: `<scenario>.1`, `<scenario>.2`, one per
 * execution of a workflow, in order, session by session.
 *
 * @param cacheDir PERDURE_DIR, where the Temporal executable is kept
 */
export async function recordScenarios(
  scenarios: readonly Scenario[],
  cacheDir: string,
  log: (line: string) => void,
): Promise<NamedHistory[]> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'perdure-record-'));
  const stops: (() => Promise<void>)[] = [() => rm(scratch, { recursive: true, force: true })];
  try {
    const postgres = await startPostgres({ dir: path.join(scratch, 'postgres'), ephemeral: true });
    stops.unshift(() => postgres.stop());
    const temporal = await startTemporal({ dir: scratch, cacheDir, headless: true, log });
    stops.unshift(() => temporal.stop());
    await migrate(await createDatabase(postgres.url, TEMPLATE));
    const recorded = await pLimit(AT_ONCE).map(scenarios, async (scenario) => {
      const started = performance.now();
      const databaseUrl = await createDatabase(postgres.url, uniqueName('scenario'), TEMPLATE);
      const histories = await record(scenario, { databaseUrl, ...(await createNamespace(temporal.address)) });
      const events = histories.map(({ history }) => history.events.length).join(' + ');
      log(`${scenario.name}: ${events} events, ${((performance.now() - started) / 1000).toFixed(1)} s`);
      return histories;
    });
    return recorded.flat();
  } finally {
    for (const stop of stops) await stop();
  }
}

async function record(scenario: Scenario, servers: SystemServers): Promise<NamedHistory[]> {
  const runtime = await startSystem(servers, { agents: [faultAgent], ...scenario.options });
  try {
    const sessions = [await scenario.play(runtime)].flat();
    for (const session of sessions) await quiet(session);
    const pseudonyms = new Pseudonyms();
    const histories = await Promise.all(sessions.map((session) => historiesOf(servers, session)));
    return histories.flat().map((history, index) => ({
      name: `${scenario.name}.${index + 1}`,
      history: pseudonyms.history(history),
    }));
  } catch (error) {
    throw new Error(`the scenario ${scenario.name} could not be played`, { cause: error });
  } finally {
    await runtime.stop();
    await servers.client.connection.close();
  }
}

/** The histories of all executions of a session, in order. */
async function historiesOf({ client }: SystemServers, session: Recorded): Promise<History[]> {
  const { runId } = await session.handle.describe();
  // Visibility lists executions with a delay.
  const executions = await eventually(async () => {
    const listed = await listExecutions(client, { limit: 100, workflowId: session.id });
    if (!listed.some((execution) => execution.runId === runId)) throw new Error('not listed yet');
    return listed;
  });
  return Promise.all(executions.toReversed().map((execution) => fetchHistory(client, execution)));
}
