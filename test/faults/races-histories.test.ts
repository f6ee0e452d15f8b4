// Whatever happens to a session, and however slow its rows are, leaves histories that replay. HISTORIES=20000 makes and
// replays as many, SEED=… repeats a run (the same plans; what meets what still depends on the machine).
import path from 'node:path';
import { randomInt } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import { fetchHistory, listExecutions } from '../../tools/scripts/histories/history.ts';
import { type NamedHistory, replay } from '../../tools/scripts/histories/replay.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { workflowBundle } from '../../worker/bundle.ts';
import faultAgent from './agent.ts';
import { inParallel } from './parallel.ts';
import { live, type Plan, plans, scriptOf, slowRows } from './random-sessions.ts';

const HISTORIES = Number(process.env['HISTORIES'] ?? 60);
const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31));
const AT_ONCE = 24;
/** A worker has eight slots for workflow tasks, and each slow command holds one. */
const WORKERS = 3;

let runtime: TestRuntime;
const planOf = new Map<string, Plan>();
beforeAll(async () => {
  runtime = await startRuntime({
    agents: [faultAgent],
    settings: { idleCloseMs: 1_500, continueAsNewEvents: 20, sweepIntervalMs: 3_600_000 },
    script: scriptOf(planOf),
  });
  await Promise.all(Array.from({ length: WORKERS - 1 }, () => runtime.startWorker()));
});

it(
  `W5 ${HISTORIES} histories of random sessions on slow rows replay (seed ${SEED})`,
  { timeout: 180_000 + HISTORIES * 1_000 },
  async () => {
    using _slow = slowRows(runtime.db, planOf);
    const sessions: TestSession[] = [];
    const started = performance.now();
    const all = plans(SEED, HISTORIES);
    let count = 0;
    // Each session leaves several: it closes, continues as new, is terminated.
    await inParallel(HISTORIES, AT_ONCE, async (nth) => {
      if (count >= HISTORIES) return;
      const session = await TestSession.open(runtime, { agent: faultAgent.id });
      sessions.push(session);
      planOf.set(session.id, all[nth]!);
      await live(session, runtime.db, all[nth]!);
      count = (await runtime.temporal.workflow.count()).count;
    });
    const made = performance.now() - started;
    const histories = await historiesOf(sessions);
    const results = await replay(await workflowBundle(path.resolve('node_modules/.cache/perdure')), histories);
    const broken = results.filter(({ broke }) => broke !== undefined);
    const events = histories.reduce((sum, { history }) => sum + history.events.length, 0);
    console.log(
      `seed ${SEED}: ${broken.length} of ${histories.length} histories of ${sessions.length} sessions broke, ${events} events; ` +
        `made in ${seconds(made)} s, replayed ${seconds(performance.now() - started)} s after the start`,
    );
    expect(
      broken.slice(0, 5).map(({ of, broke }) => `${of.name}: ${broke}`),
      `seed ${SEED}`,
    ).toEqual([]);
    expect(broken).toEqual([]);
    expect(histories.length).toBeGreaterThanOrEqual(HISTORIES);
  },
);

const seconds = (ms: number) => (ms / 1_000).toFixed(0);

/** Every history of the sessions, ended or not. */
async function historiesOf(sessions: readonly TestSession[]): Promise<NamedHistory[]> {
  const latest = await Promise.all(sessions.map(async (session) => (await session.handle.describe()).runId));
  // What can be listed lags behind what has happened.
  const executions = await eventually(
    async () => {
      const listed = await listExecutions(runtime.temporal, { limit: 100 * sessions.length });
      const known = new Set(listed.map(({ runId }) => runId));
      expect(latest.filter((runId) => !known.has(runId))).toEqual([]);
      return listed;
    },
    { timeout: 30_000 },
  );
  const histories: NamedHistory[] = [];
  await inParallel(executions.length, 16, async (nth) => {
    const execution = executions[nth]!;
    histories.push({
      name: `${execution.workflowId}/${execution.runId}`,
      history: await fetchHistory(runtime.temporal, execution),
    });
  });
  return histories;
}
