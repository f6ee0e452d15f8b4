import { ApplicationFailure } from '@temporalio/activity';
import type { StopSignal } from '../../agent/stop-signal.ts';
import type { Bus } from '../../bus/bus.ts';
import type { Claim } from '../../store/runs.ts';
import type { Underway } from '../../store/steps.ts';

/** A head start is asked for its outcome at these intervals, longer each time, and whenever its run is over. */
const POLL_MS = { first: 100, longest: 1_000, growth: 1.5 };

/**
 * Claims a step or tool call. While a head start does the work, usually in another process, waits for its outcome, which the
 * claim then returns: claiming at once would call the model a second time.
 * @throws {ApplicationFailure} `Shutdown`: this worker stops meanwhile
 */
export async function claimWhenFree<Outcome extends { kind: string }>(
  { context: { bus }, claim, stop }: { context: { bus: Bus }; claim: Claim; stop: StopSignal },
  claimNow: () => Promise<Outcome>,
): Promise<Exclude<Outcome, Underway> | { kind: 'abort' } | { kind: 'lost' }> {
  for (let ms = POLL_MS.first; ; ms = Math.min(ms * POLL_MS.growth, POLL_MS.longest)) {
    const outcome = await claimNow();
    if (outcome.kind !== 'underway') return outcome as Exclude<Outcome, Underway>;
    await news(bus, claim, ms, stop.signal);
    if (stop.why === 'shutdown') throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
    if (stop.why !== undefined) return { kind: stop.why === 'abort' ? 'abort' : 'lost' };
  }
}

/** Waits until the run is over, as far as the bus tells; for at most `ms`, or until the signal fires. */
async function news(bus: Bus, { sessionId, runSeq }: Claim, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const end = () => resolve();
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  const unsubscribe = bus.subscribe((event) => {
    if (event.kind === 'stream' && event.over === true && event.session === sessionId && event.run === runSeq) end();
  });
  await promise;
  unsubscribe();
  signal.removeEventListener('abort', end);
  clearTimeout(timer);
}
