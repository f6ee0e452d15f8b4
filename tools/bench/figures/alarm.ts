// False alarms: whether a worker without spare CPU loses its lease or misses its heartbeats. All cores are busy while sessions stream.
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { fetchHistory, listExecutions } from '../../../worker/replay/history.ts';
import { AGENT } from '../agents.ts';
import { type Child, startChild } from '../child.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { USER } from '../names.ts';
import { messageOf } from '../script.ts';
import { withWorld, type World } from '../world.ts';

const WORKERS = 2;
const SESSIONS = 20;
/** An answer of 12 s. */
const ANSWER = { chunks: 60, pace: 200 };
const MOST_MINUTES = 55;

/** Runs turns until the time is over; returns how many. */
async function talk({ client }: World, until: number): Promise<number> {
  const { session } = await client.openSession(USER, { agent: AGENT });
  for (let turns = 0; ; turns += 1) {
    if (now() > until) return turns;
    const text = messageOf({ key: randomUUID(), ...ANSWER });
    const { run_seq } = await client.submit(USER, session.session_id, { text });
    let last = 'nothing';
    for await (const chunk of client.follow(USER, session.session_id, run_seq)) last = chunk.type;
    if (last !== 'finish') throw new Error(`a turn ended with ${last}`);
  }
}

/** Attempts lost to a lapsed lease or a heartbeat time-out: the last part of the fence counts them. */
async function lostAttempts({ db }: World): Promise<number> {
  const { rows } = await db.query<{ lost: number }>(
    'SELECT sum(greatest(fence[3] - 1, 0))::int AS lost FROM chat_runs',
  );
  return rows[0]!.lost;
}

/** Workflow tasks that timed out and were dispatched again. */
async function lateTasks({ temporal }: World): Promise<{ late: number; all: number }> {
  let [late, all] = [0, 0];
  for (const execution of await listExecutions(temporal, { limit: 10_000 })) {
    const types = (await fetchHistory(temporal, execution)).events.map((event) => event.eventType);
    late += types.filter((type) => type === 'EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT').length;
    all += types.filter((type) => type === 'EVENT_TYPE_WORKFLOW_TASK_COMPLETED').length;
  }
  return { late, all };
}

/** CPU time of all cores since the last call, and the busy share. */
function busyMeter(): () => number {
  const read = () => {
    const times = os.cpus().map((cpu) => cpu.times);
    const idle = times.reduce((sum, each) => sum + each.idle, 0);
    return { idle, all: times.flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0) };
  };
  const before = read();
  return () => {
    const after = read();
    return 1 - (after.idle - before.idle) / (after.all - before.all);
  };
}

async function measure(world: World, minutes: number): Promise<Result[]> {
  const busy = busyMeter();
  const until = now() + minutes * 60_000;
  const turns = await Promise.all(Array.from({ length: SESSIONS }, () => talk(world, until)));
  const load = busy();
  const sum = turns.reduce((all, each) => all + each, 0);
  const tasks = await lateTasks(world);
  const name = `${minutes} minutes at full load`;
  return [
    {
      name: `${name}: attempts lost`,
      value: await lostAttempts(world),
      unit: '',
      target: { atMost: 0 },
      detail: `${sum} answers of ${(ANSWER.chunks * ANSWER.pace) / 1_000} s, ${SESSIONS} at a time, ${WORKERS} workers`,
    },
    { name: `${name}: late workflow tasks`, value: tasks.late, unit: '', detail: `of ${tasks.all}` },
    { name: `${name}: load of all cores`, value: load * 100, unit: '%' },
  ];
}

async function withBusyCores<T>(use: () => Promise<T>): Promise<T> {
  const burning: Child[] = [];
  try {
    for (let core = 0; core < os.availableParallelism(); core += 1) burning.push(await startChild('burn'));
    return await use();
  } finally {
    await Promise.all(burning.map((child) => child.stop()));
  }
}

export const alarm: Figure = {
  name: 'alarm',
  onRequest: { withinMs: (MOST_MINUTES + 3) * 60_000 },
  measure: (bench: Bench) =>
    withWorld(bench, { name: 'alarm', workers: WORKERS }, (world) => {
      if (bench.minutes > MOST_MINUTES) throw new Error(`--minutes: expected at most ${MOST_MINUTES}`);
      return withBusyCores(() => measure(world, bench.minutes));
    }),
};
