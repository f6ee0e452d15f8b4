import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Exit } from './spawn-tied.ts';

/** A process or server that runs until it is stopped or dies. */
type Part = { exited: Promise<Exit>; stop(): Promise<unknown> };

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 10_000;
/** After a part ran this long, the backoff starts again at the first delay. */
const HEALTHY_MS = 30_000;

/**
 * Starts a part, and restarts it with backoff whenever it dies.
 * @param start is given a signal that fires when the part is to be stopped
 * @param say takes a line for the terminal
 * @returns the part as first started, and a function that stops it for good
 * @throws the error of the first start; later errors are printed and retried
 */
export async function keepRunning<P extends Part>(
  name: string,
  start: (stopping: AbortSignal) => Promise<P>,
  say: (line: string) => void,
): Promise<{ part: P; stop: () => Promise<void> }> {
  const stopping = new AbortController();
  const part = await start(stopping.signal);
  const watching = watch(part);
  return {
    part,
    async stop() {
      stopping.abort();
      await watching;
    },
  };

  async function watch(first: P): Promise<void> {
    let current: P | undefined = first;
    let wait = FIRST_DELAY_MS;
    while (!stopping.signal.aborted) {
      const startedAt = Date.now();
      const exit: Exit | undefined = current && (await exitOf(current));
      if (stopping.signal.aborted) break;
      if (Date.now() - startedAt > HEALTHY_MS) wait = FIRST_DELAY_MS;
      if (exit) say(`${name} ended (${describe(exit)}), starting it again in ${wait / 1000} s`);
      await delay(wait, undefined, { signal: stopping.signal }).catch(() => {});
      wait = Math.min(wait * 2, LONGEST_DELAY_MS);
      current = stopping.signal.aborted ? undefined : await restart(wait);
    }
    await current?.stop();
  }

  /** Waits until the part ends or is to be stopped. */
  function exitOf(running: P): Promise<Exit | undefined> {
    return Promise.race([running.exited, once(stopping.signal, 'abort').then(() => undefined)]);
  }

  async function restart(nextWait: number): Promise<P | undefined> {
    try {
      const started = await start(stopping.signal);
      say(`${name} is back`);
      return started;
    } catch (error) {
      if (stopping.signal.aborted) return undefined;
      const reason = error instanceof Error ? error.message : String(error);
      say(`${name} did not start, trying again in ${nextWait / 1000} s: ${reason}`);
      return undefined;
    }
  }
}

function describe({ code, signal }: Exit): string {
  return signal === null ? `exit code ${code}` : signal;
}
