import { addAbortListener } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { backoffMs } from './backoff.ts';

const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 2_000;
const CONNECT_TIMEOUT_MS = 3_000;
/** A connection whose peer is gone is noticed within twice this time. */
const PING_MS = 5_000;
const END_TIMEOUT_MS = 500;

interface Options {
  connectionString: string;
  applicationName: string;
  /** Default 2 s. */
  longestBackoffMs?: number;
  /** Called with each new client before it is used; if it throws, the connection counts as failed. */
  prepare?: (client: pg.Client) => Promise<void>;
  /** Called when `client` is set. */
  onConnected?: () => void;
  onError: (error: unknown) => void;
}

/**
 * One connection that is replaced when it breaks, with backoff, until it is closed:
 *
 * 1. `client` is undefined while there is no connection.
 * 2. `prepare` has completed for every client before `client` is set.
 * 3. Every failure is reported once, and never thrown.
 */
export class LastingConnection {
  client: pg.Client | undefined;
  private readonly options: Options;
  private readonly closing = new AbortController();
  private readonly ended: Promise<void>;

  constructor(options: Options) {
    this.options = options;
    this.ended = this.keepConnected();
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.ended;
  }

  private async keepConnected(): Promise<void> {
    const { signal } = this.closing;
    const { longestBackoffMs: longest = LONGEST_BACKOFF_MS } = this.options;
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.connectOnce(() => (failures = 0));
      } catch (error) {
        if (!signal.aborted) this.options.onError(error);
      }
      failures += 1;
      await delay(backoffMs(failures, { first: FIRST_BACKOFF_MS, longest }), undefined, { signal, ref: false }).catch(
        () => {},
      );
    }
  }

  /** Connects, and returns when the connection has ended. */
  private async connectOnce(onConnected: () => void): Promise<void> {
    const client = new pg.Client({
      connectionString: this.options.connectionString,
      application_name: this.options.applicationName,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: PING_MS,
      keepAlive: true,
    });
    const { promise: end, resolve, reject } = Promise.withResolvers<void>();
    end.catch(() => {});
    client.on('error', reject);
    client.on('end', () => resolve());
    const closing = addAbortListener(this.closing.signal, () => resolve());
    let pings: NodeJS.Timeout | undefined;
    try {
      await client.connect();
      await this.options.prepare?.(client);
      this.client = client;
      onConnected();
      this.options.onConnected?.();
      pings = setInterval(() => void client.query('SELECT 1').catch(reject), PING_MS).unref();
      await end;
    } finally {
      clearInterval(pings);
      closing[Symbol.dispose]();
      this.client = undefined;
      await Promise.race([client.end(), delay(END_TIMEOUT_MS, undefined, { ref: false })]).catch(() => {});
    }
  }
}
