import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { type Bus, type BusEvent, pack, type Pointer, unpack } from './bus.ts';
import { LastingConnection } from './connection.ts';
import { Listeners } from './listeners.ts';

const CHANNEL = 'perdure';
/** Postgres takes payloads of fewer than 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_900;
const MERGE_MS = 10;
/** A status goes along with what is more urgent, or after this by itself. */
const COMPANY_MS = 30;
/** Batches that may go at once after a pause. */
const BURST = 5;
/** Beyond this pointers are dropped while Postgres is away: readers read again when it is back. */
const MAX_WAITING = 10_000;

interface Options {
  /** Straight to Postgres, past any pooler: LISTEN belongs to a connection. */
  connectionString: string;
  /** Told of everything that goes wrong; the bus itself goes on. */
  onError?: (error: unknown) => void;
}

/**
 * A bus on Postgres' NOTIFY. Owns two connections a process, one to publish on and one to listen on:
 *
 * 1. NOTIFY is sent on its own connection, never in a transaction that writes: notifying transactions commit one at a
 *    time in the whole cluster.
 * 2. A process sends a batch every 10 ms at most; after a pause, the first few go at once, so that the few pointers of a
 *    lonely turn never wait, but those of a status, which nobody waits for: they wait a moment for company. What comes
 *    while a batch is on its way or may not go yet is gathered, equal ones are merged, and goes together.
 * 3. Nothing here waits for Postgres but `close`. With Postgres away pointers are gathered up to a bound.
 * 4. Every time that listening begins, the first included, listeners are told `reconnected`.
 */
export function createPostgresBus({ connectionString, onError = () => {} }: Options): Bus {
  const listeners = new Listeners(onError);
  let listenings = 0;
  const listening = new LastingConnection({
    connectionString,
    applicationName: 'perdure listen',
    prepare: async (client) => {
      await listen(client, (event) => listeners.tell(event));
      listenings += 1;
    },
    onError,
  });
  const publisher = new Publisher(connectionString, onError);
  return {
    publish: (pointer) => publisher.publish(pointer),
    get counts() {
      return { batches: publisher.batches, listenings };
    },
    subscribe: (listener) => listeners.add(listener),
    close: async () => {
      listeners.clear();
      await Promise.all([publisher.close(), listening.close()]);
    },
  };
}

async function listen(client: pg.Client, tell: (event: BusEvent) => void): Promise<void> {
  client.on('notification', ({ payload = '' }) => {
    for (const pointer of unpack(payload) ?? []) tell(pointer);
  });
  await client.query(`LISTEN ${CHANNEL}`);
  tell({ kind: 'reconnected' });
}

class Publisher {
  private readonly connection: LastingConnection;
  private readonly onError: (error: unknown) => void;
  private waiting: Pointer[] = [];
  private sending: Promise<void> | undefined;
  private company: NodeJS.Timeout | undefined;
  private closed = false;
  batches = 0;
  /** When the batches sent so far would have been due, had each waited for its turn. */
  private paidUntil = 0;

  constructor(connectionString: string, onError: (error: unknown) => void) {
    this.onError = onError;
    this.connection = new LastingConnection({
      connectionString,
      applicationName: 'perdure notify',
      onConnected: () => this.start(),
      onError,
    });
  }

  publish(pointer: Pointer): void {
    if (this.closed || this.waiting.length >= MAX_WAITING) return;
    this.waiting.push(pointer);
    if (pointer.kind === 'status') this.company ??= setTimeout(() => this.start(), COMPANY_MS);
    else this.start();
  }

  async close(): Promise<void> {
    this.closed = true;
    this.start();
    await this.sending;
    await this.connection.close();
  }

  private start(): void {
    clearTimeout(this.company);
    this.company = undefined;
    if (this.sending || this.waiting.length === 0 || !this.connection.client) return;
    this.sending = this.sendWaiting().finally(() => {
      this.sending = undefined;
      this.start();
    });
  }

  /** Sends until nothing is left. */
  private async sendWaiting(): Promise<void> {
    // What is published in one breath goes together.
    await Promise.resolve();
    while (this.waiting.length > 0) {
      await this.pace();
      const { client } = this.connection;
      if (!client) return;
      await this.send(client, pack(this.waiting.splice(0), MAX_PAYLOAD_BYTES));
    }
  }

  /** Waits until a batch may go, and counts it. */
  private async pace(): Promise<void> {
    const wait = this.paidUntil - BURST * MERGE_MS - performance.now();
    if (wait > 0 && !this.closed) await delay(wait);
    this.paidUntil = Math.max(this.paidUntil, performance.now()) + MERGE_MS;
  }

  private async send(client: pg.Client, payloads: string[]): Promise<void> {
    try {
      await client.query({
        name: 'notify',
        text: 'SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload',
        values: [CHANNEL, payloads],
      });
      this.batches += 1;
    } catch (error) {
      this.onError(error);
    }
  }
}
