import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Bench, Figure, Result } from '../figure.ts';
import { cpuOfLoad, type Load, load } from '../load.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { median } from '../statistics.ts';
import { turn } from '../turn.ts';

const SESSIONS = 16;
/** An answer of 10 s. */
const ANSWER = { chunks: 300, pace: 33 };
const ANSWER_MS = ANSWER.chunks * ANSWER.pace;
const POLL_MS = 50;
const ROUNDS = 2;
const WARM_UP_MS = 3_000;
const MS = 20_000;
const WITHIN_MS = 15 * 60_000;
/** Each leaves out one part of the work, whose cost is the difference. Without writes there is nothing to read. */
const LEFT_OUT = {
  heartbeats: { PERDURE_HEARTBEAT_TIMEOUT: '60s' },
  'writes and their reads': { PERDURE_SAVE_BUFFER_MS: '60000', PERDURE_SAVE_BUFFER_SIZE: '100000' },
  reads: {},
} as const;

type Part = keyof typeof LEFT_OUT;

/** An answer that nobody reads while it streams. */
async function unread({ client, db }: System, sessionId: string): Promise<void> {
  const runSeq = await client.submit(sessionId, messageOf({ key: randomUUID(), ...ANSWER }));
  await delay(ANSWER_MS);
  const over = 'SELECT FROM chat_runs WHERE session_id = $1 AND seq = $2 AND finished_at IS NOT NULL';
  while ((await db.query(over, [sessionId, runSeq])).rowCount === 0) await delay(POLL_MS);
}

async function measured(system: System, without?: Part): Promise<Load<unknown>> {
  await system.restartWorker(without && LEFT_OUT[without]);
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => system.client.open()));
  const turns = sessions.map((id) => async (): Promise<unknown> => {
    return without === 'reads' ? unread(system, id) : turn(system, id, ANSWER);
  });
  return load(system.pids, turns, { warmUpMs: WARM_UP_MS, ms: MS });
}

/** CPU of a second of one stream, in milliseconds. */
const ofSecond = (runs: Load<unknown>[]): number =>
  median(runs.map((run) => (cpuOfLoad(run) * 1_000) / run.ms / SESSIONS));

async function measure({ system, floor }: Bench): Promise<Result[]> {
  const bare: Load<unknown>[] = [];
  const complete: Load<unknown>[] = [];
  const without: Record<Part, Load<unknown>[]> = { heartbeats: [], 'writes and their reads': [], reads: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const talks = Array.from({ length: SESSIONS }, () => floor());
    const bareTurns = talks.map((talk) => () => talk.turn({ key: randomUUID(), ...ANSWER }));
    bare.push(await load(system.pids, bareTurns, { warmUpMs: WARM_UP_MS, ms: MS / 2 }));
    complete.push(await measured(system));
    for (const part of Object.keys(LEFT_OUT) as Part[]) without[part].push(await measured(system, part));
  }
  await system.restartWorker();
  const name = `CPU of a second of a stream, ${SESSIONS} sessions`;
  return [
    { name, value: ofSecond(complete), floor: ofSecond(bare), unit: 'ms' },
    ...Object.entries(without).map(([part, runs]) => ({
      name: `${name}: of it for ${part}`,
      value: ofSecond(complete) - ofSecond(runs),
      unit: 'ms',
    })),
  ];
}

export const longStreams: Figure = { name: 'long-streams', onRequest: { withinMs: WITHIN_MS }, measure };
