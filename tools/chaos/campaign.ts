// A campaign: load and faults together, then a wait until all is settled, then a check of every promise.
import { setTimeout as delay } from 'node:timers/promises';
import pTimeout from 'p-timeout';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { PostgresSessionService } from '../../client/state/index.ts';
import { patient } from '../test-kit/patient.ts';
import { Random } from '../test-kit/random.ts';
import { Readings } from './api.ts';
import { breakOf } from './breaks.ts';
import { Crew, STALE_MS } from './crew.ts';
import { Driver } from './driver.ts';
import { by, type Evidence, gather, keepEvidence, type Users, withChildren } from './evidence.ts';
import { injectFaults, type Injected } from './faults.ts';
import { CHANGES, checkFloors, untilChanged } from './floors.ts';
import { checkFreshness } from './freshness.ts';
import { Ledger, type Violation } from './ledger.ts';
import type { Options } from './options.ts';
import { checkAnswers } from './promises/answers.ts';
import { checkAttachments } from './promises/attachments.ts';
import { checkBranches } from './promises/branches.ts';
import { checkChildren } from './promises/children.ts';
import { checkCommands } from './promises/commands.ts';
import { checkCompactions } from './promises/compactions.ts';
import { checkHidden } from './promises/hidden.ts';
import { checkHistories } from './promises/histories.ts';
import { checkStateFiles, checkTasks } from './promises/initiatives.ts';
import { checkMessages } from './promises/messages.ts';
import { checkModelCalls } from './promises/model-calls.ts';
import { checkOrder } from './promises/order.ts';
import { checkPermissions } from './promises/permissions.ts';
import { checkPhases } from './promises/phases.ts';
import { checkProcesses } from './promises/processes.ts';
import { checkReaders } from './promises/readers.ts';
import { checkRegenerates } from './promises/regenerates.ts';
import { checkRewinds } from './promises/rewinds.ts';
import { checkState } from './promises/state.ts';
import { checkSums } from './promises/sums.ts';
import { checkTools } from './promises/tools.ts';
import { standingOf } from './standing.ts';
import { isStored } from './summaries.ts';
import { NAMESPACE, withWorld, type World } from './world.ts';

const USERS = 4;
/** The members of the crew, whose sessions are beside those of the users. */
const CREW_SIZE = 3;
const CREW_USER = 'user-crew';
/** Their numbers are odd, so that their sessions are opened by a request of their own. */
const FIRST_MEMBER = 101;
/** Share of model requests that fail. */
const FAULTY = 0.12;
/** After the faults, a session without progress for this long is stuck. */
const STUCK_MS = patient(60_000);
/** Without faults; a sweep looks for lost timers after 12 s. */
const RELEASED_WITHIN_MS = patient(30_000);
/** Time for users to read their answers once all runs are over. */
const ANSWERED_WITHIN_MS = patient(60_000);

/** Result of a campaign. */
export interface Report {
  seed: number;
  broken: string | undefined;
  seconds: number;
  sessions: number;
  turns: number;
  modelCalls: number;
  readings: number;
  /** Rewinds, edits and whatever else changes a conversation, by kind. */
  changes: Record<string, number>;
  /** Turns by model. */
  models: Record<string, number>;
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
  const { result, ...processes } = await withWorld({ seed: options.seed, keep, ...broken }, async (world) => {
    const { injected, ...users } = await play(world, options, ledger, say);
    say('checking every promise');
    const evidence = await gather(world, users);
    let isChecked = false;
    try {
      await checkAll(ledger, evidence, injected);
      checkFloors(ledger, changesOf(evidence), options.leastChanges ?? 0);
      isChecked = true;
    } finally {
      if (!isChecked || ledger.violations.length > 0) await keepEvidence(evidence);
    }
    return { evidence, injected };
  });
  await checkProcesses(ledger, processes);
  return reportOf(options, ledger, { ...result, began });
}

async function play(
  world: World,
  options: Options,
  ledger: Ledger,
  say: (line: string) => void,
): Promise<Users & { injected: Injected[] }> {
  const { seed, seconds, leastFaults = 0, leastChanges = 0, gapMs } = options;
  const readings = new Readings();
  const enough = new AbortController();
  const late = new AbortController();
  const hosts = world.hostUrls;
  const users = Array.from({ length: options.sessions }, (_, number) => {
    const random = new Random(seed, 'session', number);
    const user = `user-${number % USERS}`;
    return new Driver({ seed, number, user, hosts, random, readings, late: late.signal });
  });
  const drivers = [...users];
  const crew = new Crew({ user: CREW_USER, hosts, random: new Random(seed, 'crew'), late: late.signal });
  await crew.open();
  for (let n = 0; n < CREW_SIZE; n += 1) {
    const number = FIRST_MEMBER + 2 * n;
    const member = { seed, number, user: CREW_USER, hosts, readings, late: late.signal, initiative: crew.initiative };
    drivers.push(new Driver({ ...member, random: new Random(seed, 'member', n) }));
  }
  world.model.faulty = FAULTY;
  if (!world.disk) say('no right to mount a file system here: postgres-disk-full is left out');
  say(`${drivers.length} sessions, ${CREW_SIZE} of them a crew, faults for ${seconds} s`);
  const driving = Promise.allSettled([...drivers, crew].map((driver) => driver.run(enough.signal)));
  const service = new PostgresSessionService({ database: world.db });
  const appending = Promise.allSettled(users.map((user) => user.appending.run(enough.signal, service)));
  const settled = new AbortController();
  const answering = Promise.allSettled(drivers.map(({ approvals }) => approvals.run(settled.signal)));
  const random = new Random(seed, 'faults');
  const injected = await injectFaults(world, readings, { random, seconds, leastFaults, gapMs, kinds: options.faults });
  const roundTrips = () => drivers.reduce((sum, { goingBack }) => sum + goingBack.roundTrips.length, 0);
  await untilChanged(world.db, roundTrips, leastChanges);
  world.model.faulty = 0;
  enough.abort();
  say(`${injected.length} faults; waiting until all is settled`);
  await Promise.allSettled(drivers.map((driver) => pTimeout(driver.goOn(), { milliseconds: STUCK_MS })));
  const open = await untilSettled(world, drivers);
  const standing = await standingOfAll(world, open);
  ledger.check('no session is stuck', 'all', open.length === 0, () => ({ open, standing }));
  const timer = setTimeout(() => late.abort(new Error('too late')), open.length === 0 ? ANSWERED_WITHIN_MS : 0);
  await Promise.all([driving, appending]);
  settled.abort();
  await answering;
  if (!late.signal.aborted) await checkFreshness(ledger, world, drivers[0]!, readings);
  clearTimeout(timer);
  await Promise.allSettled(drivers.map((driver) => driver.finished()));
  await untilReleased(world);
  await crew.readState();
  return { drivers, crew, readings, injected };
}

/** Waits until nobody holds a task, as nobody works any more; whoever does for too long is found by the promises. */
async function untilReleased({ db }: World): Promise<void> {
  const until = Date.now() + STALE_MS + RELEASED_WITHIN_MS;
  while (Date.now() < until) {
    const { rowCount } = await db.query(
      `SELECT FROM initiative_tasks WHERE assigned_to IS NOT NULL AND status <> 'completed' LIMIT 1`,
    );
    if (rowCount === 0) return;
    await delay(200);
  }
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
    const { rows: runs } = await db.query<OpenRun>(
      `SELECT r.session_id, s.user_id, r.seq, r.state, r.step, r.abort_requested_at, c.paused_at IS NOT NULL AS paused,
              ARRAY(SELECT alias FROM session_aliases a WHERE a.session_id = r.session_id) || r.session_id AS names
         FROM chat_runs r JOIN sessions s USING (session_id) JOIN chat_sessions c USING (session_id)
        WHERE r.state IN ('queued', 'running', 'waiting') ORDER BY r.session_id, r.seq`,
    );
    const rows = runs.length > 0 ? runs : await resultsToCome(db);
    if (rows.length === 0) return [];
    const sessions = by(rows, (row) => row.session_id);
    for (const [session, open] of sessions) {
      const standing = JSON.stringify(open);
      if (moved.get(session)?.standing !== standing) moved.set(session, { standing, at: Date.now() });
    }
    const still = rows.filter(({ session_id }) => Date.now() - moved.get(session_id)!.at > STUCK_MS);
    if (still.length > 0) return still;
    await Promise.allSettled(
      pausedOf(rows, drivers).map((driver) => pTimeout(driver.goOn(), { milliseconds: STUCK_MS })),
    );
    await delay(200);
  }
}

/** Where the sessions of these runs stand. */
async function standingOfAll({ db, temporalAddress: address }: World, open: readonly OpenRun[]): Promise<object[]> {
  if (open.length === 0) return [];
  const temporal = temporalClient({ connectionOptions: { address }, namespace: NAMESPACE });
  try {
    const sessions = [...new Set(open.map((run) => run.session_id))];
    return await Promise.all(sessions.map((session) => standingOf(db, temporal, session)));
  } finally {
    await temporal.connection.close();
  }
}

/** Results of children that are to come; those of a session that was gone back in wait for its next message. */
async function resultsToCome(db: World['db']): Promise<OpenRun[]> {
  const { rows } = await db.query<OpenRun>(
    `SELECT t.parent_id AS session_id, s.user_id, t.child_id, '{}'::text[] AS names, false AS paused
       FROM tasks t JOIN chat_sessions c ON c.session_id = t.parent_id JOIN sessions s ON s.session_id = t.parent_id
      WHERE t.delivered_at IS NULL AND c.rewinds IS NULL`,
  );
  return rows;
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
    const all = withChildren(evidence);
    const settledCalls = checkAnswers(ledger, all);
    checkTools(ledger, all, settledCalls);
    checkPermissions(ledger, all);
    checkOrder(ledger, all, settledCalls);
    checkChildren(ledger, evidence);
    checkCommands(ledger, evidence);
    const { crew, initiatives } = evidence;
    checkTasks(ledger, initiatives, { staleMs: STALE_MS, outages: injected.map((fault) => outageOf(fault)) });
    checkStateFiles(ledger, crew.initiative, crew.read, initiatives.recorded);
    ledger.check(
      'every response is one of those expected',
      crew.initiative,
      crew.api.odd.length === 0,
      () => crew.api.odd,
    );
    checkSums(ledger, evidence);
    checkSums(ledger, evidence.branches);
    checkSums(ledger, evidence.children);
    checkHidden(ledger, evidence);
    const { drivers, sessionOf } = evidence;
    const tripsOf = (driver: Driver) =>
      driver.goingBack.roundTrips.map((trip) => ({ ...trip, session: sessionOf(driver) }));
    checkRewinds(ledger, drivers.flatMap(tripsOf));
    for (const driver of drivers) checkRegenerates(ledger, sessionOf(driver), driver.goingBack.regenerated, evidence);
    checkCompactions(ledger, evidence);
    checkBranches(ledger, evidence);
    await checkAttachments(ledger, evidence);
    await checkState(ledger, evidence);
    await checkReaders(ledger, evidence);
    await checkPhases(ledger, evidence, temporal);
    await checkHistories(ledger, evidence, temporal);
  } finally {
    await temporal.connection.close();
  }
}

/** When a fault was, in times since 1970. */
function outageOf({ from, to }: Injected) {
  const since = performance.timeOrigin;
  return { from: since + from, to: since + to };
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
    changes: changesOf(evidence),
    models: countBy(evidence.runs, ({ model }) => model ?? 'the default model'),
    faults,
    injected,
    checked: Object.fromEntries(ledger.checked),
    violations: ledger.violations,
  };
}

function changesOf({ events, drivers, tasks, serverRuns, initiatives, crew }: Evidence): Record<string, number> {
  const ofInitiative = countBy(initiatives.events, ({ kind }) => kind);
  const kinds = new Set<string>([...CHANGES, 'approval']);
  const made = events.filter((event) => kinds.has(event.kind) || isStored(event));
  return {
    ...countBy(made, ({ kind }) => kind),
    attachment: drivers.flatMap(({ files }) => files.uploaded).length,
    ...countBy(
      drivers.flatMap(({ appending }) => appending.appended),
      ({ stored }) => (stored === true ? 'appended event' : 'stale event'),
    ),
    child: tasks.length,
    'call of the MCP server': serverRuns.length,
    'completed task': ofInitiative['task_completed'] ?? 0,
    'crashed work session': ofInitiative['session_crashed'] ?? 0,
    'reading of STATE.md': crew.read.length,
  };
}

function countBy<Row>(rows: readonly Row[], kind: (row: Row) => string): Record<string, number> {
  return Object.fromEntries([...by(rows, kind)].map(([name, all]) => [name, all.length]));
}
