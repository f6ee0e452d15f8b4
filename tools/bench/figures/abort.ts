import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { now } from '../clock.ts';
import type { Figure } from '../figure.ts';
import type { Moments } from '../model.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { percentile, spread } from '../statistics.ts';
import { rest } from '../turn.ts';

const TRIES = 100;
const SESSIONS = 4;
/** Time without a chunk before the user aborts. */
const SILENCE_MS = 30;

/** From sending the abort to the provider's connection closed, in milliseconds. */
async function tryOnce({ client, model }: System, sessionId: string): Promise<number> {
  const key = randomUUID();
  const runSeq = await client.submit(sessionId, messageOf({ key, chunks: 3, hang: true }));
  const followed = client.follow(sessionId, runSeq);
  while ((await model.call<number>('requests', { key })) === 0) await delay(5);
  await delay(SILENCE_MS);
  const sentAt = now();
  await client.abort(sessionId);
  const [request] = await model.call<Moments[]>('moments', { key });
  const { last } = await followed;
  if (last !== 'abort') throw new Error(`an aborted turn ended with ${last}`);
  return request!.closedAt - sentAt;
}

export const abort: Figure = {
  name: 'abort',
  measure: async ({ system }) => {
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => system.client.open()));
    const samples: number[] = [];
    for (let n = 0; n < TRIES; n += 1) {
      samples.push(await tryOnce(system, sessions[n % SESSIONS]!));
      await rest();
    }
    const result = (share: number, target: number) => ({
      name: `abort to closed connection, p${share * 100}`,
      value: percentile(samples, share),
      unit: 'ms',
      target: { atMost: target },
    });
    return [{ ...result(0.5, 50), detail: spread(samples) }, result(0.99, 250)];
  },
};
