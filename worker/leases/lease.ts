import { once } from 'node:events';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Context } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { LostWork } from '../../store/leases.ts';

/**
 * What the thread is started with: Postgres, directly or through a pooler, the length of the lease in milliseconds, and the
 * ids of the worker's agents.
 */
export interface LeaseData {
  /** Id of the worker. */
  worker: string;
  connectionString: string;
  leaseMs: number;
  agents: readonly string[];
}

/** Messages to the thread. */
export type ToThread =
  | { kind: 'begin'; number: number; token: Uint8Array }
  | { kind: 'end'; number: number }
  | { kind: 'forget'; worker: string }
  | { kind: 'close' };

/** Messages from the thread. */
export type FromThread =
  | { kind: 'lost'; worker: string; work: LostWork }
  | { kind: 'mistaken' }
  | { kind: 'error'; error: unknown };

interface Options extends LeaseData {
  log: Logger;
  /** Fails an activity of a lost worker by its task token, so that it is retried. */
  failActivity: (token: Uint8Array) => Promise<void>;
  /** Goes on with the turns of a lost worker that no activity had. */
  takeOver: (work: LostWork) => void;
}

/** The thread's entry file, with the extension of this file: source or built. */
const ENTRY = new URL(`lease-thread${path.extname(import.meta.filename)}`, import.meta.url);
const CLOSE_MS = 2_000;

/**
 * A worker's lease. A worker that no longer renews its lease is dead, frozen or cut off from Postgres. Another worker then
 * fails that worker's activities, so that Temporal retries them, and continues its head starts, which have no activity. The
 * lease is renewed by a thread of its own, so that a worker does not lose it while its main thread is busy.
 */
export class Lease {
  private readonly options: Options;
  private readonly thread: Worker;
  private readonly running = new Map<number, Context>();
  private activities = 0;

  constructor(options: Options) {
    const { worker, connectionString, leaseMs, agents } = options;
    this.options = options;
    this.thread = new Worker(ENTRY, { workerData: { worker, connectionString, leaseMs, agents } satisfies LeaseData });
    this.thread.on('message', (message: FromThread) => void this.receive(message));
  }

  /** Lists every activity under the lease while it runs. */
  readonly interceptor: ActivityInterceptorsFactory = (context) => ({
    inbound: {
      execute: async (input, next) => {
        const { isLocal, taskToken: token } = context.info;
        if (isLocal) return next(input);
        const number = (this.activities += 1);
        this.running.set(number, context);
        this.send({ kind: 'begin', number, token });
        try {
          return await next(input);
        } finally {
          this.running.delete(number);
          this.send({ kind: 'end', number });
        }
      },
    },
  });

  /** Ends the lease. */
  async close(): Promise<void> {
    const exited = once(this.thread, 'exit');
    this.send({ kind: 'close' });
    const timer = setTimeout(() => void this.thread.terminate(), CLOSE_MS);
    await exited;
    clearTimeout(timer);
  }

  private send(message: ToThread): void {
    this.thread.postMessage(message, []);
  }

  private async receive(message: FromThread): Promise<void> {
    const { log } = this.options;
    switch (message.kind) {
      case 'error':
        return log.warn({ err: message.error }, 'lease');
      case 'mistaken':
        log.warn('this worker was taken for lost: its activities continue elsewhere');
        // The server's answer is that these attempts are over, and the SDK cancels them.
        for (const context of this.running.values()) context.heartbeat();
        return;
      case 'lost':
        this.options.takeOver(message.work);
        return this.failActivities(message.worker, message.work.tokens);
    }
  }

  private async failActivities(worker: string, tokens: Uint8Array[]): Promise<void> {
    const { log, failActivity } = this.options;
    log.warn({ worker, activities: tokens.length }, 'a worker is lost: its activities are retried');
    try {
      await Promise.all(tokens.map(failActivity));
      this.send({ kind: 'forget', worker });
    } catch (error) {
      log.warn({ err: error, worker }, 'activities of a lost worker could not be failed; trying again');
    }
  }
}
