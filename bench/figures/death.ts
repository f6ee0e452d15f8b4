// How soon a step goes on elsewhere when its worker is killed or frozen, and how soon commands are answered meanwhile.
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PerdureClient } from '../../client/client.ts';
import { parseConfig } from '../../config/config.ts';
import { createDatabase } from '../../dev/databases.ts';
import type { TiedProcess } from '../../dev/die-with-parent.ts';
import { startNodeProcess } from '../../dev/node-process.ts';
import { migrate } from '../../migrations/migrate.ts';
import { createNamespace } from '../../test/support/namespaces.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { AGENT } from '../agents.ts';
import { MODEL } from '../names.ts';
import { messageOf } from '../script.ts';
import { percentile, spread } from '../statistics.ts';

const USER = 'bench';
const WORKERS = 2;
const SESSIONS = 10;
/** Of the sessions at work, those that are given commands instead of being waited for. */
const COMMANDED = 2;
/** The signal comes at any moment of the first seconds of an answer. */
const SIGNAL_WITHIN_MS = 1_500;
/** A step that has not gone on by then never will, as far as a user is concerned. */
const PATIENCE_MS = 30_000;
const POLL_MS = 10;

type Signal = 'SIGKILL' | 'SIGSTOP';

interface Samples {
  nextCall: number[];
  commands: number[];
  /** Commands that had no answer but that there was none in time. */
  unanswered: number;
}

/** Servers and workers of this figure alone, for it kills them. */
interface World {
  client: PerdureClient;
  temporal: Awaited<ReturnType<typeof createNamespace>>['client'];
  workers: TiedProcess[];
  startWorker(): Promise<TiedProcess>;
  requests(key: string): Promise<number>;
}

async function withWorld<T>({ system, say }: Bench, use: (world: World) => Promise<T>): Promise<T> {
  await using stops = new AsyncDisposableStack();
  const database = await createDatabase(system.databaseUrl, `death_${randomUUID().slice(0, 8)}`);
  await migrate(database);
  const { namespace, client: temporal } = await createNamespace(system.temporalAddress);
  stops.defer(() => temporal.connection.close());
  const { dir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const env = {
    ...process.env,
    DATABASE_URL: database,
    TEMPORAL_ADDRESS: system.temporalAddress,
    TEMPORAL_NAMESPACE: namespace,
    OPENAI_API_KEY: 'bench',
    OPENAI_BASE_URL: system.modelUrl,
    PERDURE_MODEL: MODEL,
    PERDURE_AGENTS: fileURLToPath(new URL('../agents.ts', import.meta.url)),
    PERDURE_DIR: dir,
  };
  const workers: TiedProcess[] = [];
  stops.defer(() => Promise.all(workers.map((worker) => end(worker))).then(() => {}));
  const startWorker = async () => {
    const worker = await startNodeProcess({
      name: `worker-to-die-${workers.length}`,
      entry: fileURLToPath(new URL('../../worker/main.ts', import.meta.url)),
      env,
      logDir: path.join(dir, 'bench'),
      graceMs: 2_000,
      say: () => {},
    });
    workers.push(worker);
    return worker;
  };
  await Promise.all(Array.from({ length: WORKERS }, startWorker));
  const log = { warn: (fields: object, message: string) => say(`${message} ${JSON.stringify(fields)}`) };
  const client = new PerdureClient({ database, temporal, maxMessageBytes: 262_144, log });
  stops.defer(() => client.end());
  const requests = (key: string) => system.model.call<number>('requests', { key });
  return await use({ client, temporal, workers, startWorker, requests });
}

async function end(worker: TiedProcess): Promise<void> {
  try {
    process.kill(worker.pid, 'SIGCONT');
  } catch {
    // It is dead already.
  }
  await worker.stop();
}

/** A session in mid-answer. */
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

/** The process at work on a session's step; 0: none. */
async function workerOf({ temporal }: World, { session }: Talk): Promise<number> {
  const { raw } = await temporal.workflow.getHandle(session).describe();
  return Number.parseInt(raw.pendingActivities?.[0]?.lastWorkerIdentity ?? '0', 10);
}

/** From the signal to the next model call of a step, in milliseconds. */
async function untilNextCall(world: World, { key }: Talk, since: number): Promise<number> {
  const before = 1;
  while ((await world.requests(key)) <= before) {
    if (now() - since > PATIENCE_MS) return PATIENCE_MS;
    await delay(POLL_MS);
  }
  return now() - since;
}

/** Sends commands one after the other while the worker is away; a refusal is an answer. */
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

async function round(world: World, signal: Signal, samples: Samples): Promise<void> {
  const talks = await Promise.all(Array.from({ length: SESSIONS }, () => begin(world)));
  await delay(200 + Math.random() * SIGNAL_WITHIN_MS);
  const places = await Promise.all(talks.map(async (talk) => ({ talk, pid: await workerOf(world, talk) })));
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
    await world.startWorker();
  } else {
    process.kill(victim.pid, 'SIGCONT');
  }
  await Promise.all(talks.map(({ session }) => world.client.commands.close(USER, session, { abort: true })));
}

async function measure(bench: Bench, world: World, signal: Signal): Promise<Result[]> {
  const samples: Samples = { nextCall: [], commands: [], unanswered: 0 };
  for (let n = 0; n < bench.rounds; n += 1) await round(world, signal, samples);
  const from = signal === 'SIGKILL' ? 'kill' : 'freeze';
  const call = (share: number, atMost: number): Result => ({
    name: `${from} to the next model call, p${share * 100}`,
    value: percentile(samples.nextCall, share),
    unit: 'ms',
    target: { atMost },
    detail: spread(samples.nextCall),
  });
  return [
    call(0.5, 4_000),
    call(0.99, 7_000),
    {
      name: `commands after a ${from}, the slowest answer`,
      value: Math.max(...samples.commands),
      unit: 'ms',
      target: { atMost: 4_000 },
      detail: `${spread(samples.commands)}, ${samples.unanswered} without an answer`,
    },
  ];
}

export const death: Figure = {
  name: 'death',
  onRequest: { withinMs: 600_000 },
  measure: (bench) =>
    withWorld(bench, async (world) => [
      ...(await measure(bench, world, 'SIGKILL')),
      ...(await measure(bench, world, 'SIGSTOP')),
    ]),
};
