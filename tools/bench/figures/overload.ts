import { randomUUID } from 'node:crypto';
import { freePort } from '../../../dev/ports.ts';
import { now } from '../clock.ts';
import { memoryOf } from '../cpu.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { usedHeap } from '../heap.ts';
import { load, rateOf } from '../load.ts';
import type { System } from '../servers.ts';
import { median, percentile } from '../statistics.ts';
import { rest, turn } from '../turn.ts';

/** Sessions that stream one answer after the other, 373 answers a second: four times what two cores can serve. */
const SESSIONS = 448;
/** An answer of 1.2 s. */
const ANSWER = { chunks: 60, pace: 20 };
const CALM_TURNS = 20;
const WARM_UP_MS = 5_000;
const SAMPLE_MS = 1_000;
const MOST_MINUTES = 10;
const LONGEST_RECOVERY_MS = 60_000;

/** Times of a plain turn while nothing else runs. */
async function calm(system: System): Promise<number> {
  const session = await system.client.open();
  const times: number[] = [];
  for (let n = 0; n < CALM_TURNS; n += 1) {
    times.push((await turn(system, session)).total);
    await rest();
  }
  return median(times);
}

/** Milliseconds until plain turns take at most twice as long as in a calm system. */
async function recovery(system: System, usual: number): Promise<number> {
  const from = now();
  const session = await system.client.open();
  while (now() - from < LONGEST_RECOVERY_MS) {
    const startedAt = now();
    if ((await turn(system, session)).total <= 2 * usual) return startedAt - from;
    await rest();
  }
  return Number.POSITIVE_INFINITY;
}

/** The least of the last third over the least of the second. The least of many samples is the heap after a collection. */
function growth(heap: readonly number[]): number {
  const third = Math.floor(heap.length / 3);
  return Math.min(...heap.slice(2 * third)) / Math.min(...heap.slice(third, 2 * third));
}

/** A load of more than the machine can serve, for `--minutes`, and what comes after it. */
export const overload: Figure = {
  name: 'overload',
  onRequest: { withinMs: (MOST_MINUTES + 2) * 60_000 },
  measure: async ({ system, minutes }: Bench) => {
    const port = await freePort();
    const metrics = `http://127.0.0.1:${port}`;
    await system.restartWorker({ PERDURE_METRICS_PORT: String(port) });
    const usual = await calm(system);
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => system.client.open()));
    let lost = 0;
    let memory = 0;
    const heap: number[] = [];
    const sample = async () => {
      memory = Math.max(memory, memoryOf(system.pids().worker));
      heap.push(await usedHeap(metrics));
    };
    const watching = setInterval(() => void sample().catch(() => {}), SAMPLE_MS);
    const turns = sessions.map((session) => async () => {
      try {
        return await turn(system, session, { key: randomUUID(), ...ANSWER });
      } catch {
        lost += 1;
        return { firstText: Number.NaN, longestGap: Number.NaN };
      }
    });
    const run = await load(system.pids, turns, { warmUpMs: WARM_UP_MS, ms: Math.min(minutes, MOST_MINUTES) * 60_000 });
    clearInterval(watching);
    const recovered = await recovery(system, usual);
    await system.restartWorker();
    const of = (key: 'firstText' | 'longestGap') => run.samples.map((each) => each[key]);
    const name = `overload, ${SESSIONS} sessions`;
    const row = (what: string, value: number, unit: string, atMost?: number): Result => ({
      name: `${name}: ${what}`,
      value,
      unit,
      ...(atMost !== undefined && { target: { atMost } }),
    });
    return [
      row('answers a second', rateOf([run]), '/s'),
      row('first text, p50', percentile(of('firstText'), 0.5), 'ms'),
      row('first text, p99', percentile(of('firstText'), 0.99), 'ms'),
      row('longest gap of an answer, p99', percentile(of('longestGap'), 0.99), 'ms'),
      row('answers that were lost', lost, '', 0),
      row('memory of the worker', memory / 1024 ** 2, 'MB', 1_000),
      row('its heap after garbage collections, last third over the one before', growth(heap), '×', 1.2),
      row('until turns take their usual time', recovered / 1_000, 's', 5),
    ];
  },
};
