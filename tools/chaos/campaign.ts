// A campaign: load and faults together, then a wait until all is settled, then a check of every promise.
import { setTimeout as delay } from 'node:timers/promises';
import { withinMs } from '../../client/deadline.ts';
import { temporalClient } from '../../client/temporal.ts';
import { Readings } from './api.ts';
import { breakOf } from './breaks.ts';
import { Driver } from './driver.ts';
import { by, type Evidence, gather, keepEvidence } from './evidence.ts';
import { checkFreshness } from './freshness.ts';
import { injectFaults, type Injected } from './faults.ts';
import { Ledger, type Violation } from './ledger.ts';
import type { Options } from './options.ts';
import { checkAnswers } from './promises/answers.ts';
import { checkCommands } from './promises/commands.ts';
import { checkHistories } from './promises/histories.ts';
import { checkMessages } from './promises/messages.ts';
import { checkModelCalls } from './promises/model-calls.ts';
import { checkOrder } from './promises/order.ts';
import { checkPhases } from './promises/phases.ts';
import { checkProcesses } from './promises/processes.ts';
import { checkReaders } from './promises/readers.ts';
import { checkSums } from './promises/sums.ts';
import { checkTools } from './promises/tools.ts';
import { Random } from './random.ts';
import { NAMESPACE, withWorld, type World } from './world.ts';

const USERS = 4;
/** Share of model requests that fail. */
const FAULTY = 0.12;
/** After the faults, a session without progress for this long is stuck. */
const STUCK_MS = 60_000;
/** Time for users to read their answers once all runs are over. */
const ANSWERED_WITHIN_MS = 60_000;

/** Result of a campaign. */
export interface Report {
  seed: number;
  broken: string | undefined;
  seconds: number;
  sessions: number;
  turns: number;
  modelCalls: number;
  readings: number;
  faults: Record<string, number>;
  injected: Injected[];
  checked: Record<string, number>;
  violations: Violation[];
}

/** @param keep folder for logs and evidence */
export async function campaign(options: Options, keep: string, say: (line: string) => void): Promise<Report> {
  const began = Date.now();
  const ledger = new Ledger();
  const broken = breakOf(options.broken);
  say(`seed ${options.seed}: starting Postgres, Temporal, workers, hosts and the model`);
  const { result, dir, pids } = await withWorld({ seed: options.seed, keep, ...broken }, async (world) => {
    const { drivers, readings, injected } = await play(world, options, ledger, say);
    say('checking every promise');
    const evidence = await gather(world, drivers, readings);
    await checkAll(ledger, evidence, injected);
    if (ledger.violations.length > 0) await keepEvidence(evidence);
    return { evidence, injected };
  });
  await checkProcesses(ledger, dir, pids);
  return reportOf(options, ledger, { ...result, began });
}

async function play(world: World, options: Options, ledger: Ledger, say: (line: string) => void) {
  const { seed, seconds, gapMs } = options;
  const readings = new Readings();
  const enough = new AbortController();
  const late = new AbortController();
  const hosts = world.hostUrls;
  const drivers = Array.from({ length: options.sessions }, (_, number) => {
    const random = new Random(seed, 'session', number);
    const user = `user-${number % USERS}`;
    return new Driver({ seed, number, user, hosts, random, readings, late: late.signal });
  });
  world.model.faulty = FAULTY;
  if (!world.disk) say('no right to mount a file system here: postgres-disk-full is left out');
  say(`${drivers.length} sessions, faults for ${seconds} s`);
  const driving = Promise.allSettled(drivers.map((driver) => driver.run(enough.signal)));
  const random = new Random(seed, 'faults');
  const injected = await injectFaults(world, readings, { random, seconds, gapMs, kinds: options.faults });
  world.model.faulty = 0;
  enough.abort();
  say(`${injected.length} faults; waiting until all is settled`);
  await Promise.allSettled(drivers.map((driver) => withinMs(STUCK_MS, driver.goOn())));
  const open = await untilSettled(world, drivers);
  ledger.check('no session is stuck', 'all', open.length === 0, () => open);
  const timer = setTimeout(() => late.abort(new Error('too late')), open.length === 0 ? ANSWERED_WITHIN_MS : 0);
  await driving;
  if (!late.signal.aborted) await checkFreshness(ledger, world, drivers[0]!, readings);
  clearTimeout(timer);
  await Promise.allSettled(drivers.map((driver) => driver.finished()));
  return { drivers, readings, injected };
}

interface OpenRun {
  session_id: string;
  user_id: string;
  names: string[];
  paused: boolean;
}

/** Waits until no run is open. Returns the open runs of sessions that make no progress. */
async function untilSettled({ db }: World, drivers: readonly Driver[]): Promise<OpenRun[]> {
  const moved = new Map<string, { standing: string; at: number }>();
  for (;;) {
    const { rows } = await db.query<OpenRun>(
      `SELECT r.session_id, s.user_id, r.seq, r.state, r.step, r.abort_requested_at, c.paused_at IS NOT NULL AS paused,
              ARRAY(SELECT alias FROM session_aliases a WHERE a.session_id = r.session_id) || r.session_id AS names
         FROM chat_runs r JOIN sessions s USING (session_id) JOIN chat_sessions c USING (session_id)
        WHERE r.state IN ('queued', 'running', 'waiting') ORDER BY r.session_id, r.seq`,
    );
    if (rows.length === 0) return [];
    const sessions = by(rows, (row) => row.session_id);
    for (const [session, runs] of sessions) {
      const standing = JSON.stringify(runs);
      if (moved.get(session)?.standing !== standing) moved.set(session, { standing, at: Date.now() });
    }
    const still = rows.filter(({ session_id }) => Date.now() - moved.get(session_id)!.at > STUCK_MS);
    if (still.length > 0) return still;
    await Promise.allSettled(pausedOf(rows, drivers).map((driver) => withinMs(STUCK_MS, driver.goOn())));
    await delay(200);
  }
}

/** Drivers whose queue is paused after an error; the next message resumes it. */
function pausedOf(rows: readonly OpenRun[], drivers: readonly Driver[]): Driver[] {
  const paused = rows.filter((row) => row.paused);
  const names = new Set(paused.flatMap((row) => row.names.map((name) => `${row.user_id}/${name}`)));
  return drivers.filter(({ api, session }) => names.has(`${api.user}/${session}`));
}

async function checkAll(ledger: Ledger, evidence: Evidence, injected: readonly Injected[]): Promise<void> {
  const { temporalAddress: address } = evidence.world;
  const temporal = temporalClient({ connectionOptions: { address }, namespace: NAMESPACE });
  try {
    checkMessages(ledger, evidence);
    checkModelCalls(ledger, evidence, injected);
    const settledCalls = checkAnswers(ledger, evidence);
    checkTools(ledger, evidence, settledCalls);
    checkOrder(ledger, evidence, settledCalls);
    checkCommands(ledger, evidence);
    checkSums(ledger, evidence);
    await checkReaders(ledger, evidence);
    await checkPhases(ledger, evidence, temporal);
    await checkHistories(ledger, evidence, temporal);
  } finally {
    await temporal.connection.close();
  }
}

type Found = { evidence: Evidence; injected: Injected[]; began: number };

function reportOf(options: Options, ledger: Ledger, { evidence, injected, began }: Found): Report {
  const faults: Record<string, number> = {};
  for (const { kind } of injected) faults[kind] = (faults[kind] ?? 0) + 1;
  for (const { fault } of evidence.calls) if (fault) faults[`model-${fault}`] = (faults[`model-${fault}`] ?? 0) + 1;
  return {
    seed: options.seed,
    broken: options.broken,
    seconds: Math.round((Date.now() - began) / 1000),
    sessions: evidence.sessions.length,
    turns: evidence.runs.length,
    modelCalls: evidence.calls.length,
    readings: evidence.readings.all.length,
    faults,
    injected,
    checked: Object.fromEntries(ledger.checked),
    violations: ledger.violations,
  };
}
