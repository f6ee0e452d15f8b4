import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 2_000;
const CONNECT_TIMEOUT_MS = 3_000;
/** A connection whose other end is gone without a word is noticed within two of these. */
const PING_MS = 5_000;
const END_TIMEOUT_MS = 500;

interface Options {
  connectionString: string;
  applicationName: string;
  /** Called with each new connection before it is handed out; what it throws counts as a failed connection. */
  prepare?: (client: pg.Client) => Promise<void>;
  /** Called when `client` is there. */
  onConnected?: () => void;
  onError: (error: unknown) => void;
}

/**
 * One connection that is made again when it breaks, with backoff, until it is closed. Owns:
 *
 * 1. At most one client is there at any time; `client` is undefined while there is none.
 * 2. `prepare` has run on every client before `client` shows it.
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
    let failures = 0;
    while (!this.closing.signal.aborted) {
      try {
        await this.connectOnce(() => (failures = 0));
      } catch (error) {
        if (!this.closing.signal.aborted) this.options.onError(error);
      }
      await this.pause(Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures++));
    }
  }

  /** Connects, and returns when the connection is over. */
  private async connectOnce(onConnected: () => void): Promise<void> {
    const client = new pg.Client({
      connectionString: this.options.connectionString,
      application_name: this.options.applicationName,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: PING_MS,
      keepAlive: true,
    });
    const over = new Promise<void>((resolve, reject) => {
      client.on('error', reject);
      client.on('end', resolve);
    });
    over.catch(() => {});
    try {
      await client.connect();
      await this.options.prepare?.(client);
      this.client = client;
      onConnected();
      this.options.onConnected?.();
      await Promise.race([over, this.ping(client), this.whenClosing()]);
    } finally {
      this.client = undefined;
      await Promise.race([client.end(), delay(END_TIMEOUT_MS, undefined, { ref: false })]).catch(() => {});
    }
  }

  private async ping(client: pg.Client): Promise<void> {
    while (!this.closing.signal.aborted && this.client === client) {
      await this.pause(PING_MS);
      if (!this.closing.signal.aborted && this.client === client) await client.query('SELECT 1');
    }
  }

  private whenClosing(): Promise<void> {
    const { signal } = this.closing;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  private async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.closing.signal, ref: false }).catch(() => {});
  }
}
