import { Pace } from '../../bus/pace.ts';
import { isTemporary } from '../../store/is-temporary.ts';
import { LeftTheLineError, type Limit, Limiter } from '../wait/limiter.ts';

/** Minimum interval of statements under load, */
const MIN_TICK_MS = 5;
/** and what it grows by for a statement of several requests and by its duration, up to `QUICK_TICK_MS`. */
const TICK_PER_REQUEST_MS = 2.5;
const TICKS_PER_DURATION = 2;
const QUICK_TICK_MS = 20;
/** Maximum interval: what a reader may wait for a statement to begin, besides those in flight. */
const MAX_TICK_MS = 200;
/** Statements that may begin without delay after an idle time, so that readers of a single turn do not wait. */
const BURST = 4;
const MAX_IN_FLIGHT = 2;
/** Maximum number of requests per statement, to keep statements short. */
const MAX_TOGETHER = 100;
/** Maximum size of one result of a shared statement, in bytes as stored. Larger ones are read alone. */
export const MAX_SHARED_BYTES = 32 * 1024;

interface Options<Q, R> {
  /**
   * Reads requests in one statement. Returns for each a function that returns its result or throws; or undefined, unless
   * `isAlone`: the result has more than `MAX_SHARED_BYTES`.
   */
  read(requests: readonly Q[], options: { isAlone: boolean }): Promise<((() => R) | undefined)[]>;
  /** Limits concurrent statements. */
  limit: Limit;
  /** Maximum number of concurrent statements for one request each. */
  maxAlone: number;
}

/** Of one read. */
export interface SharedReadOptions {
  /**
   * In a statement of its own. For a repeated request: if it made its first statement fail, it fails no others again.
   */
  alone?: boolean;
  /** The reader's: when it fires, the read ends. When those of all its readers have, and no statement has begun, none does. */
  signal?: AbortSignal | undefined;
}

interface Entry<Q, R> extends PromiseWithResolvers<R> {
  request: Q;
  readers: number;
  /** Fires when all readers have left. */
  left: AbortController;
}

/**
 * Collects the reads of all readers in a process into few statements:
 *
 * 1. After an idle time a request is read at once. Under load a statement begins once per tick: every 20 ms, or as long as
 *    the last statement took, at most 200 ms. If it was quick and read few requests, the tick is shorter, down to 5 ms, so that
 *    a few sessions without a rest do not wait. A statement reads all requests that have arrived, at most 100; so many do not
 *    wait for the tick. Two statements may be in flight.
 * 2. Requests that are equal as JSON and wait for a statement share its result. A request never joins a statement in
 *    flight, which may have read the rows before the change that caused the request.
 * 3. A result that is too large for a shared statement, and each request of a statement that failed for a lasting reason, is
 *    read again in a statement of its own, so it neither delays nor fails the others. These statements have a limit of their
 *    own.
 */
export class SharedReads<Q, R> {
  private readonly options: Options<Q, R>;
  private readonly waiting = new Map<string, Entry<Q, R>>();
  private readonly waitingAlone = new Map<string, Entry<Q, R>>();
  private readonly alone: Limiter;
  private readonly pace = new Pace(BURST);
  private inFlight = 0;
  private tickMs = MIN_TICK_MS;
  private timer: NodeJS.Timeout | undefined;
  private isStarting = false;

  constructor(options: Options<Q, R>) {
    this.options = options;
    this.alone = new Limiter(options.maxAlone);
  }

  /**
   * Reads; results may be shared, so callers must not change them.
   * @throws what its statement throws
   * @throws {LeftTheLineError} the signal has fired
   */
  async read(request: Q, { alone = false, signal }: SharedReadOptions = {}): Promise<R> {
    if (signal?.aborted === true) throw new LeftTheLineError();
    const queue = alone ? this.waitingAlone : this.waiting;
    const key = JSON.stringify(request);
    const known = queue.get(key);
    const entry = known ?? { request, readers: 0, left: new AbortController(), ...Promise.withResolvers<R>() };
    entry.readers += 1;
    if (known === undefined) {
      queue.set(key, entry);
      if (alone) void this.readAlone(key, entry);
      else this.schedule();
    }
    const { promise: hasLeft, reject } = Promise.withResolvers<never>();
    const leave = () => {
      entry.readers -= 1;
      if (entry.readers === 0) {
        if (queue.get(key) === entry) queue.delete(key);
        entry.left.abort();
      }
      reject(new LeftTheLineError());
    };
    signal?.addEventListener('abort', leave, { once: true });
    try {
      return await (signal === undefined ? entry.promise : Promise.race([entry.promise, hasLeft]));
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  private schedule(): void {
    if (this.isStarting || this.waiting.size === 0 || this.inFlight >= MAX_IN_FLIGHT) return;
    const isFull = this.waiting.size >= MAX_TOGETHER;
    if (this.timer !== undefined && !isFull) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    const wait = isFull ? 0 : this.pace.waitMs(this.tickMs);
    if (wait > 0) {
      this.timer = setTimeout(() => void this.readWaiting(), wait);
      return;
    }
    // Not synchronously: one batch of pointers causes many requests.
    this.isStarting = true;
    setImmediate(() => void this.readWaiting());
  }

  private async readWaiting(): Promise<void> {
    this.timer = undefined;
    this.isStarting = false;
    this.pace.begin(this.tickMs);
    this.inFlight += 1;
    const from = performance.now();
    let requests = 0;
    await this.options.limit(() => {
      const entries = this.takeWaiting();
      requests = entries.length;
      return this.readTogether(entries);
    });
    this.tickMs = tickAfter(requests, performance.now() - from);
    this.inFlight -= 1;
    this.schedule();
  }

  private takeWaiting(): Entry<Q, R>[] {
    const taken = [...this.waiting].slice(0, MAX_TOGETHER);
    for (const [key] of taken) this.waiting.delete(key);
    this.schedule();
    return taken.map(([, entry]) => entry);
  }

  private async readTogether(entries: Entry<Q, R>[]): Promise<void> {
    if (entries.length === 0) return;
    const requests = entries.map(({ request }) => request);
    try {
      const results = await this.options.read(requests, { isAlone: false });
      for (const [at, entry] of entries.entries()) this.settle(entry, results[at]);
    } catch (error) {
      const isLasting = entries.length > 1 && !isTemporary(error);
      for (const entry of entries) {
        if (isLasting) this.moveToAlone(entry);
        else entry.reject(error);
      }
    }
  }

  private settle(entry: Entry<Q, R>, result: (() => R) | undefined): void {
    if (result === undefined) return this.moveToAlone(entry);
    try {
      entry.resolve(result());
    } catch (error) {
      entry.reject(error);
    }
  }

  private moveToAlone({ request, left: { signal }, resolve, reject }: Entry<Q, R>): void {
    this.read(request, { alone: true, signal }).then(resolve, reject);
  }

  private async readAlone(key: string, { request, left: { signal }, resolve, reject }: Entry<Q, R>): Promise<void> {
    try {
      const work = () => {
        // From now on the rows may change without this statement seeing it.
        this.waitingAlone.delete(key);
        return this.options.read([request], { isAlone: true });
      };
      const [result] = await this.alone.run(() => this.options.limit(work, signal), signal);
      if (result === undefined) throw new Error('expected a result of any size');
      resolve(result());
    } catch (error) {
      reject(error);
    }
  }
}

/** The interval of statements under load, after one of so many requests that took so many milliseconds. */
function tickAfter(requests: number, tookMs: number): number {
  const wanted = Math.max(MIN_TICK_MS, requests * TICK_PER_REQUEST_MS, tookMs * TICKS_PER_DURATION);
  return Math.min(MAX_TICK_MS, Math.max(Math.min(QUICK_TICK_MS, wanted), tookMs));
}
