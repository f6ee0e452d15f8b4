import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { LastingConnection } from '../../bus/connection.ts';
import {
  endLease,
  findLostWorker,
  forgetLostWorker,
  listActivities,
  type LostWork,
  renewLease,
  takeLease,
} from '../../store/leases.ts';
import { LeaseJudge } from './lease-judge.ts';

const RENEWALS_PER_LEASE = 3;
/** While renewals are slow, a lease is longer: the interval and this many times the slowest of the last ones. */
const SLOWNESS = 3;
/** How much of the slowest renewal counts at the next one: half of it after nine seconds. */
const DECAY = 0.98;
const LONGEST_MS = 30_000;
const LONGEST_BACKOFF_MS = 250;
const RECONNECT_POLL_MS = 50;

interface Options {
  /** Id of the worker. */
  worker: string;
  connectionString: string;
  /** Length of a lease in milliseconds, at least. */
  leaseMs: number;
  /** Ids of the worker's agents. */
  agents: readonly string[];
  /** Another worker is lost. Called again, in any worker, until `forget`. */
  onLost: (worker: string, work: LostWork) => void;
  /** Another worker took this one for lost and failed its activities. */
  onMistaken: () => void;
  /** Called with the first of consecutive failures. */
  onError: (error: unknown) => void;
}

/**
 * Holds a worker's lease on a connection of its own: renews it, lists the activities that run under it, and finds the
 * workers that did not renew theirs. A connection that breaks is replaced, and the lease is taken again.
 */
export class LeaseKeeper {
  private readonly options: Options;
  private readonly worker: string;
  private readonly connection: LastingConnection;
  private readonly intervalMs: number;
  private readonly judge: LeaseJudge;
  private readonly closing = new AbortController();
  private readonly ended: Promise<void>;
  /** All activities that run; those among them that are not in the row yet; those in the row that have ended. */
  private readonly running = new Map<number, Uint8Array>();
  private began = new Map<number, Uint8Array>();
  private finished: number[] = [];
  /** The connection on which the lease was taken; undefined: it has to be taken. */
  private holder: pg.Client | undefined;
  private listing: Promise<void> | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private slowestMs = 0;
  private isFailing = false;

  constructor(options: Options) {
    this.options = options;
    this.worker = options.worker;
    this.intervalMs = options.leaseMs / RENEWALS_PER_LEASE;
    this.judge = new LeaseJudge(options.leaseMs);
    this.connection = new LastingConnection({
      connectionString: options.connectionString,
      applicationName: 'perdure lease',
      longestBackoffMs: LONGEST_BACKOFF_MS,
      onError: (error) => this.fail(error),
    });
    this.ended = this.keep();
  }

  /** Lists an activity that begins, at once: it is failed if this worker is lost. */
  begin(number: number, token: Uint8Array): void {
    this.running.set(number, token);
    this.began.set(number, token);
    this.list();
  }

  /** An activity has ended; the next renewal removes it. */
  end(number: number): void {
    this.running.delete(number);
    if (!this.began.delete(number)) this.finished.push(number);
  }

  /** The activities of a lost worker have been failed. */
  async forget(worker: string): Promise<void> {
    const { holder } = this;
    if (holder === undefined) return;
    await this.inTurn(() => forgetLostWorker(holder, worker)).catch((error: unknown) => this.fail(error));
  }

  /** Ends the lease, also one that was found lost and is not taken again yet: the worker has stopped. */
  async close(): Promise<void> {
    this.closing.abort();
    await this.ended;
    const { client } = this.connection;
    if (client !== undefined) await this.inTurn(() => endLease(client, this.worker)).catch(() => {});
    await this.connection.close();
  }

  private async keep(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      const startedAt = performance.now();
      const waitMs = await this.renew().catch((error: unknown) => this.fail(error));
      const restMs = Math.max(0, startedAt + waitMs - performance.now());
      await delay(restMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Takes or renews the lease. Returns the time from the start of this renewal to the next. */
  private async renew(): Promise<number> {
    const { client } = this.connection;
    if (client === undefined) return RECONNECT_POLL_MS;
    if (client !== this.holder) {
      await this.take(client);
      return this.intervalMs;
    }
    const { finished } = this;
    this.finished = [];
    const startedAt = performance.now();
    const renewed = await this.inTurn(() => renewLease(client, this.worker, this.lengthMs, finished));
    this.slowestMs = Math.max(performance.now() - startedAt, this.slowestMs * DECAY);
    this.isFailing = false;
    if (renewed === undefined) {
      this.options.onMistaken();
      this.holder = undefined;
      return 0;
    }
    const { lost, againMs } = this.judge.look(renewed);
    for (const worker of lost) {
      const work = await this.inTurn(() => findLostWorker(client, worker));
      if (work !== undefined) this.options.onLost(worker, work);
    }
    return Math.min(this.intervalMs, againMs);
  }

  private async take(client: pg.Client): Promise<void> {
    this.began.clear();
    this.finished = [];
    const upMs = await this.inTurn(() =>
      takeLease(client, this.worker, { leaseMs: this.lengthMs, running: this.running, agents: this.options.agents }),
    );
    this.judge.begin(client, upMs);
    this.holder = client;
    this.list();
  }

  /** Over a slow link or on a busy machine the next renewal may be late too. */
  private get lengthMs(): number {
    const { leaseMs } = this.options;
    return Math.max(leaseMs, Math.min(this.intervalMs + SLOWNESS * this.slowestMs, LONGEST_MS));
  }

  /** Lists the activities that began since the last statement, one statement at a time. */
  private list(): void {
    const { holder, began } = this;
    if (this.listing !== undefined || holder === undefined || began.size === 0) return;
    this.began = new Map();
    this.listing = this.inTurn(() => listActivities(holder, this.worker, began))
      .catch((error: unknown) => this.fail(error))
      .then(() => {
        this.listing = undefined;
        this.list();
      });
  }

  /** Executes one statement at a time. */
  private inTurn<T>(statement: () => Promise<T>): Promise<T> {
    const result = this.last.then(statement);
    this.last = result.catch(() => {});
    return result;
  }

  /** The lease is taken again, with all activities. Returns the time until then. */
  private fail(error: unknown): number {
    this.holder = undefined;
    if (!this.isFailing && !this.closing.signal.aborted) this.options.onError(error);
    this.isFailing = true;
    return RECONNECT_POLL_MS;
  }
}
