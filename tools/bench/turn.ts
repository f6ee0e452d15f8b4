import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Followed } from './client.ts';
import { now } from './clock.ts';
import { type Ask, messageOf } from './script.ts';
import type { System } from './servers.ts';

/** Pause between samples, so that work after an answer does not slow down the next sample. */
const REST_MS = 20;

export const rest = (): Promise<void> => delay(REST_MS);

/** One turn as its user sees it, in milliseconds from the sending of the message. */
export interface Turn {
  runSeq: number;
  /** In epoch milliseconds. */
  startedAt: number;
  /** Until the message was accepted. */
  accepted: number;
  firstText: number;
  /** The longest time between two texts. */
  longestGap: number;
  total: number;
}

/** A new script with an id of its own. */
export type TurnAsk = Omit<Ask, 'key'> & { key?: string };

/** A turn, followed by the process that sent the message, or by the reader. */
export async function turn(
  system: System,
  sessionId: string,
  ask: TurnAsk = {},
  { padding = 0, by = 'sender' }: { padding?: number; by?: 'sender' | 'reader' } = {},
): Promise<Turn> {
  const text = messageOf({ key: randomUUID(), ...ask }, padding);
  const startedAt = now();
  const startedAtEpoch = performance.timeOrigin + performance.now();
  const runSeq = await system.client.submit(sessionId, text);
  const acceptedAt = now();
  const followed = await (by === 'sender'
    ? system.client.follow(sessionId, runSeq)
    : followInReader(system, sessionId, runSeq));
  if (followed.last !== 'finish') throw new Error(`a turn ended with ${followed.last}`);
  const since = (at: number | undefined) => (at ?? Number.NaN) - startedAt;
  return {
    runSeq,
    startedAt: startedAtEpoch,
    accepted: since(acceptedAt),
    firstText: since(followed.firstTextAt),
    longestGap: followed.longestGap,
    total: since(followed.endAt),
  };
}

async function followInReader({ reader }: System, sessionId: string, runSeq: number): Promise<Followed> {
  await reader.call('follow', { sessionId, runSeq });
  return reader.call<Followed>('followed', { sessionId, runSeq });
}
