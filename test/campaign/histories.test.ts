// Whatever happens to a session, and however slow its rows are, leaves histories that replay. HISTORIES=20000 makes and
// replays as many; SEED=… makes the same plans again, though what meets what still depends on the machine.
import { randomInt } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { setPriority, tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { beforeAll, expect, it } from 'vitest';
import { fetchHistory } from '../../tools/scripts/histories/history.ts';
import { type NamedHistory, replayEach } from '../../tools/scripts/histories/replay.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { workflowBundle } from '../../worker/bundle.ts';
import faultAgent from '../faults/agent.ts';
import { inParallel } from '../faults/parallel.ts';
import { IDLE_MS, live, type Plan, plans, scriptOf, slowRows, watchExecutions } from './random-sessions.ts';

const HISTORIES = Number(process.env['HISTORIES'] ?? 500);
const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31));
/** Sessions at once: they wait more than they compute. */
const AT_ONCE = 60;
/** A worker has eight slots for workflow tasks, and each slow command holds one. */
const WORKERS = 5;
/** Below that of the other tests, which have time limits; nothing in this one depends on time. */
const PRIORITY = 10;

let runtime: TestRuntime;
const planOf = new Map<string, Plan>();
beforeAll(async () => {
  setPriority(PRIORITY);
  runtime = await startRuntime({
    agents: [faultAgent],
    settings: { idleCloseMs: IDLE_MS, continueAsNewEvents: 12, sweepIntervalMs: 3_600_000 },
    script: scriptOf(planOf),
  });
  await Promise.all(Array.from({ length: WORKERS - 1 }, () => runtime.startWorker()));
}, 120_000);

it(
  `W5 ${HISTORIES} histories of random sessions on slow rows replay (seed ${SEED})`,
  { timeout: 180_000 + HISTORIES * 1_000 },
  async () => {
    const started = performance.now();
    const histories = new PassThrough({ objectMode: true });
    const replaying = replayAll(histories as AsyncIterable<NamedHistory>);
    const sessions = await makeHistories(histories);
    histories.end();
    const { count, events, broken } = await replaying;
    const seconds = ((performance.now() - started) / 1_000).toFixed(0);
    console.log(
      `seed ${SEED}: ${broken.length} of ${count} histories of ${sessions} sessions broke, ${events} events, ${seconds} s`,
    );
    expect(broken, `seed ${SEED}`).toEqual([]);
    expect(count).toBeGreaterThanOrEqual(HISTORIES);
  },
);

/** Lets sessions live until there are enough histories, and writes the histories of each that has ended. */
async function makeHistories(histories: PassThrough): Promise<number> {
  using executions = watchExecutions(runtime.db);
  using _slow = slowRows(runtime.db, planOf);
  const all = plans(SEED, HISTORIES);
  let count = 0;
  // A session may leave several: it closes, continues as new, is terminated.
  await inParallel(HISTORIES, AT_ONCE, async (nth) => {
    if (count >= HISTORIES) return;
    const session = await TestSession.open(runtime, { agent: faultAgent.id });
    planOf.set(session.id, all[nth]!);
    await live(session, runtime.db, all[nth]!);
    for (const runId of executions.of.get(session.id) ?? []) {
      const execution = { workflowId: session.id, runId };
      histories.write({ name: `${session.id}/${runId}`, history: await fetchHistory(runtime.temporal, execution) });
      count += 1;
    }
  });
  return planOf.size;
}

/** Replays histories as they come. Names those that break, with a file that holds the history and its session's plan. */
async function replayAll(histories: AsyncIterable<NamedHistory>) {
  const bundle = await workflowBundle(path.resolve('node_modules/.cache/perdure'));
  let [count, events] = [0, 0];
  const broken: string[] = [];
  for await (const { of, broke } of replayEach(bundle, histories)) {
    count += 1;
    events += of.history.events.length;
    if (broke === undefined) continue;
    const file = path.join(await mkdtemp(path.join(tmpdir(), 'perdure-broken-')), 'history.json');
    await writeFile(file, JSON.stringify({ plan: planOf.get(of.name.split('/')[0]!), ...of.history }));
    broken.push(`${of.name} broke at ${broke} (${file})`);
  }
  return { count, events, broken };
}
