import pRetry from 'p-retry';
import type { StopSignal } from '../../agent/stop-signal.ts';
import { isTemporary } from '../../store/is-temporary.ts';
import { type Claim, renewClaim } from '../../store/runs.ts';
import type { ActivityContext } from '../activity-context.ts';

/** How much longer an attempt that has been stopped retries, in seconds: long enough for a restart of Postgres. */
const AFTER_STOP_S = 60;
const PACE = { retries: Infinity, minTimeout: 50, maxTimeout: 1_000, randomize: true };

/** An attempt that writes what exists only in its memory: paid-for model output, or the outcome of a tool. */
export interface Writer {
  context: ActivityContext;
  claim: Claim;
  /** It heartbeats meanwhile. Fires at the latest at the turn's time limit. */
  stop: StopSignal;
}

/**
 * Writes under a claim, and retries while Postgres is away, because a second attempt would call the model again. Before a
 * retry the claim is renewed: the server may still execute the first statement when it wakes up. `write` gets the number of
 * the try, from 1.
 * @throws the error of Postgres' client if it is not temporary, the worker shuts down, or the attempt was stopped a
 * minute ago
 */
export async function writeUntilStored<T>(
  writer: Writer,
  write: (claim: Claim, attempt: number) => Promise<T>,
): Promise<T> {
  const { context, claim } = writer;
  const outcome = await retryWhileAway(writer, async (attempt) => {
    if (attempt > 1) await renewClaim(context.db, claim);
    return write(claim, attempt);
  });
  if (isLost(outcome)) logOvertaken(writer);
  return outcome;
}

/**
 * Claims, and retries while Postgres is away. Each retry has a greater fence: it takes over what an earlier one may have
 * claimed, and an earlier one that arrives late is refused.
 * @throws as `writeUntilStored`
 */
export function claimUntilAnswered<T>(writer: Writer, claimWith: (claim: Claim) => Promise<T>): Promise<T> {
  const { claim } = writer;
  const [epoch, ordinal, tries, renewal = 0] = claim.fence;
  return retryWhileAway(writer, (attempt) => {
    if (attempt > 1) claim.fence = [epoch, ordinal, tries, renewal + attempt - 1];
    return claimWith(claim);
  });
}

/**
 * Runs a statement, and retries while Postgres is away. `run` gets the number of the try, from 1.
 * @throws as `writeUntilStored`
 */
export function retryWhileAway<T>({ context, claim, stop }: Writer, run: (attempt: number) => Promise<T>): Promise<T> {
  return pRetry(run, {
    ...PACE,
    shouldRetry: ({ error, attemptNumber }) => {
      if (!isTemporary(error) || stop.why === 'shutdown' || stop.seconds > AFTER_STOP_S) return false;
      if (attemptNumber === 1)
        context.log.warn({ err: error, ...labels(claim) }, 'Postgres did not answer: trying again');
      return true;
    },
  });
}

/** Runs a statement that no attempt waits for, and retries while Postgres is away, as long as the process runs anyway. */
export function retryInBackground<T>(run: () => Promise<T>): Promise<T> {
  return pRetry(run, { ...PACE, unref: true, shouldRetry: ({ error }) => isTemporary(error) });
}

const logged = new WeakSet<Claim>();

/** Logs, once per attempt, that another attempt has taken its run. */
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
