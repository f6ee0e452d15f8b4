import { randomUUID } from 'node:crypto';
import type { Figure } from '../figure.ts';
import { openMany, sizes } from '../many.ts';
import { ASKING_AGENT } from '../names.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { percentile, spread } from '../statistics.ts';
import { openTimers, READ } from '../timers.ts';
import { rest } from '../turn.ts';

const TRIES = 100;
const SESSIONS = 4;

/** Sends a message whose turn asks, and waits until it does. Returns the run and the call. */
async function ask({ client, db }: System, session: string): Promise<{ run: number; call: string }> {
  const run = await client.submit(session, messageOf({ key: randomUUID(), chunks: 1, asks: true }));
  // The stream ends with the question.
  const { last } = await client.follow(session, run);
  const { rows } = await db.query<{ call: string }>(
    `SELECT waiting ->> 'tool_call_id' AS call FROM chat_runs WHERE session_id = $1 AND seq = $2 AND state = 'waiting'`,
    [session, run],
  );
  if (last !== 'finish' || rows[0] === undefined) throw new Error(`a turn that should ask ended with ${last}`);
  return { run, call: rows[0].call };
}

/** From the event of the answer, just before its commit, to the tool's first line, in milliseconds. */
async function tryOnce(system: System, session: string): Promise<number> {
  const { client, db } = system;
  const { run, call } = await ask(system, session);
  await rest();
  await client.approve(session, call);
  const { last } = await client.follow(session, run);
  if (last !== 'finish') throw new Error(`an approved turn ended with ${last}`);
  const { rows } = await db.query<{ ms: number }>(
    `SELECT (p.data -> 'output' ->> 'startedAt')::float8 - extract(epoch FROM e.at)::float8 * 1000 AS ms
       FROM chat_parts p JOIN session_events e USING (session_id)
      WHERE p.session_id = $1 AND p.tool_call_id = $2 AND e.kind = 'approval' AND e.data ->> 'tool_call_id' = $2`,
    [session, call],
  );
  return rows[0]!.ms;
}

/** How long an approved call waits after its answer. */
export const approvals: Figure = {
  name: 'approvals',
  onRequest: { withinMs: 120_000 },
  measure: async ({ system }) => {
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => system.client.open(ASKING_AGENT)));
    const samples: number[] = [];
    for (let n = 0; n < TRIES; n += 1) {
      samples.push(await tryOnce(system, sessions[n % SESSIONS]!));
      await rest();
    }
    const result = (share: number) => ({
      name: `answer committed to the tool's start, p${share * 100}`,
      value: percentile(samples, share),
      unit: 'ms',
    });
    return [{ ...result(0.5), target: { atMost: 30 }, detail: spread(samples) }, result(0.99)];
  },
};

/** Memory of a worker in which ten thousand sessions wait for an answer, of which its cache holds a tenth; and their timers. */
export const waiting: Figure = {
  name: 'waiting',
  onRequest: { withinMs: 30 * 60_000 },
  measure: async ({ system, count }) => {
    const openWaiting = () =>
      openMany(count / 2, async () => {
        const id = await system.client.open(ASKING_AGENT);
        await ask(system, id);
        return id;
      });
    await system.restartWorker();
    const ids = await openWaiting();
    const half = await sizes(system);
    ids.push(...(await openWaiting()));
    const all = await sizes(system);
    const { timers } = await openTimers(system, ids);
    const evicted = (all.worker - half.worker) / (count / 2) / 1024;
    const name = `${count} waiting sessions`;
    return [
      { name: `${name}: memory of the worker`, value: all.worker / 1024 ** 2, unit: 'MB', target: { atMost: 1_000 } },
      { name: 'waiting session in the worker, evicted', value: evicted, unit: 'KB', target: { atMost: 10 } },
      { name: `open timers of ${READ} of them`, value: timers, unit: '', target: { atMost: 0 } },
    ];
  },
};
