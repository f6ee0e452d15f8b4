import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { fetchHistory } from '../../worker/replay/history.ts';
import { type NamedHistory, replayEach } from '../../worker/replay/replay.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { inParallel } from '../faults/parallel.ts';
import { payingAgent } from '../faults/paying.ts';
import { IDLE_MS, live, type Plan, plans, scriptOf, slowRows, watchExecutions } from './random-sessions.ts';

/** Sessions at once: they wait more than they compute. */
const AT_ONCE = 60;
/** A worker has eight slots for workflow tasks, and each slow command holds one. */
const SESSIONS_OF_A_WORKER = 12;

/** What became of the histories; `broken` names each that did not replay, with a file that holds it. */
interface Outcome {
  sessions: number;
  count: number;
  events: number;
  broken: string[];
}

/** A runtime for random sessions, and the plan of each. */
interface RandomRuntime extends TestRuntime {
  planOf: Map<string, Plan>;
}

async function startRandomRuntime(sessions: number): Promise<RandomRuntime> {
  const planOf = new Map<string, Plan>();
  const runtime = await startRuntime({
    agents: [payingAgent],
    settings: { idleCloseMs: IDLE_MS, continueAsNewEvents: 20, sweepIntervalMs: 3_600_000 },
    script: scriptOf(planOf),
  });
  const workers = Math.ceil(Math.min(sessions, AT_ONCE) / SESSIONS_OF_A_WORKER);
  await Promise.all(Array.from({ length: workers - 1 }, () => runtime.startWorker()));
  return { ...runtime, planOf };
}

/** Lets random sessions live until they have left `least` histories, and replays each one. The same seed makes the same plans. */
export async function makeAndReplay(least: number, seed: number): Promise<Outcome> {
  const runtime = await startRandomRuntime(least);
  const histories = new PassThrough({ objectMode: true });
  const replaying = replayAll(histories as AsyncIterable<NamedHistory>, runtime.planOf);
  await makeHistories(runtime, plans(seed, least), histories);
  histories.end();
  return { sessions: runtime.planOf.size, ...(await replaying) };
}

/** Lets sessions live until there is a history for each plan, and writes the histories of each that has ended. */
async function makeHistories(runtime: RandomRuntime, all: readonly Plan[], histories: PassThrough): Promise<void> {
  const { planOf } = runtime;
  using executions = watchExecutions(runtime.db);
  using _slow = slowRows(runtime.db, planOf);
  let count = 0;
  // A session may leave several: it closes, continues as new, is terminated.
  await inParallel(all.length, AT_ONCE, async (nth) => {
    if (count >= all.length) return;
    const session = await TestSession.open(runtime, { agent: payingAgent.id });
    planOf.set(session.id, all[nth]!);
    await live(session, runtime.db, all[nth]!);
    for (const runId of executions.of.get(session.id) ?? []) {
      const execution = { workflowId: session.id, runId };
      histories.write({ name: `${session.id}/${runId}`, history: await fetchHistory(runtime.temporal, execution) });
      count += 1;
    }
  });
}

/** Replays histories as they come. The file of one that breaks holds its session's plan, too. */
async function replayAll(
  histories: AsyncIterable<NamedHistory>,
  planOf: ReadonlyMap<string, Plan>,
): Promise<Omit<Outcome, 'sessions'>> {
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
