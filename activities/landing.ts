import { setTimeout as delay } from 'node:timers/promises';
import { type Claim, renewClaim } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { isPassing } from './failures.ts';
import type { StopSignal } from './stop.ts';

/** A restart of Postgres or the election of another one is over by then; longer ones are the server's to wait for. */
const LONGEST_MS = 60_000;
const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 1_000;

/** An attempt that writes what it alone has: words that were paid for, the outcome of what was done. */
export interface Writer {
  context: ActivityContext;
  claim: Claim;
  /** Its heartbeats go on meanwhile. */
  stop: StopSignal;
}

/**
 * Writes under a claim and does not give up while Postgres is away: what is written is in this process only. Before a
 * write is sent again the claim is renewed, for the first one may still be on its way: a connection that was given up
 * can be read by a server that wakes up later.
 * @throws what Postgres' client throws, when it is no failure in passing, has lasted too long, or the worker is to end
 */
export async function untilLanded<T>(writer: Writer, write: (claim: Claim) => Promise<T>): Promise<T> {
  const { context, claim, stop } = writer;
  const deadline = performance.now() + LONGEST_MS;
  let unsure = false;
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      if (unsure) await renewClaim(context.db, claim);
      const outcome = await write(claim);
      if (isLost(outcome)) overtaken(writer);
      return outcome;
    } catch (error) {
      if (!isPassing(error) || performance.now() > deadline || stop.why === 'shutdown') throw error;
      if (!unsure) context.log.warn({ err: error, ...about(claim) }, 'not written yet: trying again');
      unsure = true;
      await delay(wait * (0.75 + Math.random() / 2));
    }
  }
}

const told = new WeakSet<Claim>();

/** Says, once an attempt, that another one has its run: nothing that it writes counts any more. */
export function overtaken({ context, claim }: Pick<Writer, 'context' | 'claim'>): void {
  if (told.has(claim)) return;
  told.add(claim);
  context.log.warn({ ...about(claim), fence: claim.fence }, 'overtaken: this attempt ends');
}

function about({ sessionId, runSeq }: Claim): object {
  return { session: sessionId, run: runSeq };
}

function isLost(outcome: unknown): boolean {
  return outcome === 'lost' || (outcome as { kind?: unknown } | null)?.kind === 'lost';
}
