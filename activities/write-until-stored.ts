import pRetry from 'p-retry';
import type { StopSignal } from '../agent/stop.ts';
import { type Claim, renewClaim } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { isPassing } from './failures.ts';

/** Long enough for a restart of Postgres or the election of another one; after it Temporal retries the activity. */
const LONGEST_MS = 60_000;

/** An attempt that writes what exists only in its memory: paid-for model output, or the outcome of a tool. */
export interface Writer {
  context: ActivityContext;
  claim: Claim;
  /** It heartbeats meanwhile. */
  stop: StopSignal;
}

/**
 * Writes under a claim, and retries while Postgres is away. Before a retry the claim is renewed: the first statement may
 * still be on its way, and a server that wakes up later may read it.
 * @throws what Postgres' client throws, if it is no passing failure, has lasted for a minute, or the worker shuts down
 */
export async function writeUntilStored<T>(writer: Writer, write: (claim: Claim) => Promise<T>): Promise<T> {
  const { context, claim } = writer;
  const outcome = await retryWhileAway(writer, async (attempt) => {
    if (attempt > 1) await renewClaim(context.db, claim);
    return write(claim);
  });
  if (isLost(outcome)) logOvertaken(writer);
  return outcome;
}

/**
 * Claims, and retries while Postgres is away. Each retry carries a greater fence: it takes over what the first one may
 * have claimed, and the first one is refused if it arrives late.
 * @throws as `writeUntilStored`
 */
export function claimUntilAnswered<T>(writer: Writer, claimWith: (claim: Claim) => Promise<T>): Promise<T> {
  const { claim } = writer;
  return retryWhileAway(writer, (attempt) => {
    const [epoch, ordinal, tries] = claim.fence;
    if (attempt > 1) claim.fence = [epoch, ordinal, tries, attempt - 1];
    return claimWith(claim);
  });
}

function retryWhileAway<T>({ context, claim, stop }: Writer, run: (attempt: number) => Promise<T>): Promise<T> {
  return pRetry(run, {
    retries: Infinity,
    maxRetryTime: LONGEST_MS,
    minTimeout: 50,
    maxTimeout: 1_000,
    randomize: true,
    shouldRetry: ({ error, attemptNumber }) => {
      if (!isPassing(error) || stop.why === 'shutdown') return false;
      if (attemptNumber === 1) context.log.warn({ err: error, ...labels(claim) }, 'not written yet: trying again');
      return true;
    },
  });
}

const logged = new WeakSet<Claim>();

/** Logs, once an attempt, that another one has its run: nothing that it writes counts any more. */
export function logOvertaken({ context, claim }: Pick<Writer, 'context' | 'claim'>): void {
  if (logged.has(claim)) return;
  logged.add(claim);
  context.log.warn({ ...labels(claim), fence: claim.fence }, 'overtaken: this attempt ends');
}

function labels({ sessionId, runSeq }: Claim): object {
  return { session: sessionId, run: runSeq };
}

function isLost(outcome: unknown): boolean {
  return outcome === 'lost' || (outcome as { kind?: unknown } | null)?.kind === 'lost';
}
