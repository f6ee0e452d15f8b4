import type pg from 'pg';
import { type Bus, type BusEvent, pack, type Pointer, unpack } from './bus.ts';
import { LastingConnection } from './connection.ts';
import { Listeners } from './listeners.ts';

const CHANNEL = 'perdure';
/** Postgres takes payloads of fewer than 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_900;
/** Under load a batch also waits for the one before it; alone, the first words of an answer wait this long. */
const MERGE_MS = 3;
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
 * 2. The first pointer after a pause goes at once. While it is on its way, and for 3 ms from it, others are gathered,
 *    equal ones merged, and go together.
 * 3. Nothing here waits for Postgres but `close`. With Postgres away pointers are gathered up to a bound.
 * 4. Every time that listening begins, the first included, listeners are told `reconnected`.
 */
export function createPostgresBus({ connectionString, onError = () => {} }: Options): Bus {
  const listeners = new Listeners(onError);
  const listening = new LastingConnection({
    connectionString,
    applicationName: 'perdure listen',
    prepare: (client) => listen(client, (event) => listeners.tell(event)),
    onError,
  });
  const publisher = new Publisher(connectionString, onError);
  return {
    publish: (pointer) => publisher.publish(pointer),
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
  private closed = false;

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
    this.start();
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.sending;
    await this.connection.close();
  }

  private start(): void {
    if (this.sending || this.waiting.length === 0 || !this.connection.client) return;
    this.sending = this.sendWaiting().finally(() => {
      this.sending = undefined;
      this.start();
    });
  }

  /** Sends until nothing is left, a batch every 3 ms at most. */
  private async sendWaiting(): Promise<void> {
    // What is published in one breath goes together.
    await Promise.resolve();
    while (this.waiting.length > 0 && this.connection.client) {
      const batch = this.waiting.splice(0);
      const pause = this.closed ? undefined : new Promise((resolve) => setTimeout(resolve, MERGE_MS));
      await this.send(this.connection.client, pack(batch, MAX_PAYLOAD_BYTES));
      await pause;
    }
  }

  private async send(client: pg.Client, payloads: string[]): Promise<void> {
    try {
      await client.query({
        name: 'notify',
        text: 'SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload',
        values: [CHANNEL, payloads],
      });
    } catch (error) {
      this.onError(error);
    }
  }
}
