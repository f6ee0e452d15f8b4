import type { Logger } from 'pino';

/** What happened while a worker was created and replayed a recorded turn. */
export interface SeenAtStart {
  /** What our workflow thread has counted; undefined if this process did not ask for one. */
  threads: { heartbeats: number; unlimitedCalls: number; untracedHooks: number } | undefined;
  /** The SDK asked us to create its workflows. */
  hasCreator: boolean;
  /** The replay has created the recorded turn's workflow. */
  isCreated: boolean;
  activations: number;
  /** It was created and disposed through the cache. */
  hasLeftCache: boolean;
  /** Why the replay failed. */
  err: unknown;
}

/** One thing that leans on the inside of Temporal's SDK or of Node, and what it costs if it does not hold. */
interface Check {
  thing: string;
  holds: (seen: SeenAtStart) => boolean;
  without: string;
}

/** What follows from a check that failed is not reported again. */
const CHECKS: readonly Check[] = [
  {
    thing: 'workflow threads',
    holds: ({ threads }) => threads === undefined || threads.heartbeats > 0,
    without: 'a workflow takes up to twice the CPU',
  },
  {
    thing: 'calls into workflows without a time limit',
    holds: ({ threads, activations }) =>
      !threads?.heartbeats || (threads.unlimitedCalls > 0 && threads.unlimitedCalls >= activations),
    without: 'a turn takes about a quarter more CPU',
  },
  {
    thing: 'promises without stack traces',
    holds: ({ threads }) => !threads?.heartbeats || threads.untracedHooks > 0,
    without: 'a replay takes about two thirds more CPU',
  },
  {
    thing: 'creation of workflows',
    holds: ({ hasCreator }) => hasCreator,
    without: 'the first session takes a second longer, and turns of cached sessions begin later',
  },
  {
    thing: 'workflow cache',
    holds: ({ isCreated, hasLeftCache }) => !isCreated || hasLeftCache,
    without: 'the first session may take a second longer, and turns of cached sessions begin later',
  },
  {
    thing: 'warm-up',
    holds: (seen) => !seen.hasCreator || (seen.isCreated && !seen.hasLeftCache) || (seen.activations > 0 && !seen.err),
    without: 'the first session takes a second longer',
  },
];

/** Logs one warning for each thing that does not hold (docs/sdk-internals.md); if all do, that the workflow thread is warm. */
export function sdkSelfTest(seen: SeenAtStart, sdk: string, log: Logger): void {
  const failed = CHECKS.filter(({ holds }) => !holds(seen));
  const { activations, err } = seen;
  for (const { thing, without } of failed) {
    const message = `${thing}: not ours: slower, but right: ${without}; see docs/sdk-internals.md`;
    log.warn({ thing, sdk, node: process.version, ...(err !== undefined && { err }) }, message);
  }
  if (failed.length === 0) log.info({ activations, sdk }, 'the workflow thread is warm');
}
