// Time until another worker continues a step whose worker was killed or frozen, and response times of commands meanwhile.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { AGENT } from '../agents.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { USER } from '../names.ts';
import { messageOf } from '../script.ts';
import { percentile, spread } from '../statistics.ts';
import { withWorld, type World } from '../world.ts';

const WORKERS = 2;
const SESSIONS = 10;
/** Number of the busy sessions that get commands instead of being measured. */
const COMMANDED = 2;
/** The signal is sent at a random time in the first seconds of an answer. */
const SIGNAL_WITHIN_MS = 1_500;
/** A step that has not continued by then counts as lost. */
const PATIENCE_MS = 30_000;
const POLL_MS = 10;

type Signal = 'SIGKILL' | 'SIGSTOP';

interface Samples {
  nextCall: number[];
  commands: number[];
  /** Commands that timed out. */
  unanswered: number;
}

/** A session whose answer is streaming. */
interface Talk {
  session: string;
  key: string;
}

async function begin({ client }: World): Promise<Talk> {
  const { session } = await client.openSession(USER, { agent: AGENT });
  const key = randomUUID();
  await client.submit(USER, session.session_id, { text: messageOf({ key, chunks: 1_000, pace: 30 }) });
  return { session: session.session_id, key };
}

/** Pids of the workers by the ids in their leases. */
type Pids = Map<string, number>;

/** Starts a worker, and waits for its lease. */
async function startWorker({ db, startWorker: start }: World, pids: Pids): Promise<void> {
  const { pid } = await start();
  for (;;) {
    const { rows } = await db.query<{ worker_id: string }>('SELECT worker_id FROM worker_leases');
    const added = rows.find(({ worker_id: id }) => !pids.has(id));
    if (added !== undefined) return void pids.set(added.worker_id, pid);
    await delay(POLL_MS);
  }
}

/**
 * Pid of the worker that runs a session's step; 0: none. It is the row's: while a worker runs a step by its row, the step's
 * activity may wait in another one.
 */
async function workerOf({ db, temporal }: World, pids: Pids, { session }: Talk): Promise<number> {
  const { rows } = await db.query<{ worker: string | null }>(
    `SELECT head_start_worker AS worker FROM chat_runs WHERE session_id = $1 AND state = 'running'`,
    [session],
  );
  const [run] = rows;
  if (run === undefined) return 0;
  if (run.worker !== null) return pids.get(run.worker) ?? 0;
  const { raw } = await temporal.workflow.getHandle(session).describe();
  return Number.parseInt(raw.pendingActivities?.[0]?.lastWorkerIdentity ?? '0', 10);
}

/** From the signal to the next model call of a step, in milliseconds. */
async function untilNextCall(world: World, { key }: Talk, since: number): Promise<number> {
  const before = await world.requests(key);
  while ((await world.requests(key)) <= before) {
    if (now() - since > PATIENCE_MS) return PATIENCE_MS;
    await delay(POLL_MS);
  }
  return now() - since;
}

/** Sends commands one after another while the worker is away; a refusal counts as a response. */
async function command({ client }: World, { session }: Talk, samples: Samples): Promise<void> {
  const { commands } = client;
  for (const send of [() => commands.publish(USER, session), () => commands.abort(USER, session)]) {
    const since = now();
    try {
      await send();
    } catch (error) {
      if ((error as { code?: string }).code === 'Unavailable') samples.unanswered += 1;
    }
    samples.commands.push(now() - since);
  }
}

async function round(world: World, pids: Pids, signal: Signal, samples: Samples): Promise<void> {
  const talks = await Promise.all(Array.from({ length: SESSIONS }, () => begin(world)));
  await delay(200 + Math.random() * SIGNAL_WITHIN_MS);
  const places = await Promise.all(talks.map(async (talk) => ({ talk, pid: await workerOf(world, pids, talk) })));
  const count = (pid: number) => places.filter((place) => place.pid === pid).length;
  const victim = world.workers.toSorted((a, b) => count(b.pid) - count(a.pid))[0]!;
  const lost = places.filter(({ pid }) => pid === victim.pid).map(({ talk }) => talk);
  const since = now();
  process.kill(victim.pid, signal);
  const idle = await world.client.openSession(USER, { agent: AGENT });
  await Promise.all([
    ...lost.slice(COMMANDED).map(async (talk) => samples.nextCall.push(await untilNextCall(world, talk, since))),
    ...lost.slice(0, COMMANDED).map((talk) => command(world, talk, samples)),
    command(world, { session: idle.session.session_id, key: '' }, samples),
  ]);
  if (signal === 'SIGKILL') {
    await victim.exited;
    world.workers.splice(world.workers.indexOf(victim), 1);
    await startWorker(world, pids);
  } else {
    process.kill(victim.pid, 'SIGCONT');
  }
  await Promise.all(talks.map(({ session }) => world.client.commands.close(USER, session, { abort: true })));
}

async function measure(bench: Bench, world: World, pids: Pids, signal: Signal): Promise<Result[]> {
  const samples: Samples = { nextCall: [], commands: [], unanswered: 0 };
  for (let n = 0; n < bench.rounds; n += 1) await round(world, pids, signal, samples);
  const from = signal === 'SIGKILL' ? 'kill' : 'freeze';
  const call = (share: number, atMost: number): Result => ({
    name: `${from} to the next model call, p${share * 100}`,
    value: percentile(samples.nextCall, share),
    unit: 'ms',
    target: { atMost },
    detail: spread(samples.nextCall),
  });
  return [
    { ...call(0.5, 1_000), ...(signal === 'SIGKILL' && { column: 'death' }) },
    call(0.99, 1_600),
    {
      name: `commands after a ${from}, the slowest response`,
      value: Math.max(...samples.commands),
      unit: 'ms',
      target: { atMost: 4_000 },
      detail: `${spread(samples.commands)}, ${samples.unanswered} without a response`,
    },
  ];
}

export const death: Figure = {
  name: 'death',
  onRequest: { withinMs: 600_000 },
  measure: (bench) =>
    withWorld(bench, { name: 'death', workers: 0 }, async (world) => {
      const pids: Pids = new Map();
      for (let n = 0; n < WORKERS; n += 1) await startWorker(world, pids);
      return [...(await measure(bench, world, pids, 'SIGKILL')), ...(await measure(bench, world, pids, 'SIGSTOP'))];
    }),
};
