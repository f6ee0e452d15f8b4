import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { type Bus, type BusEvent, pack, type Pointer, unpack } from './bus.ts';
import { LastingConnection } from './connection.ts';
import { Listeners } from './listeners.ts';
import { Pace } from './pace.ts';

const CHANNEL = 'perdure';
/** Payloads of NOTIFY are limited to less than 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_900;
const MERGE_MS = 5;
/** Pointers that are not urgent (status, evicted) are batched for this time, unless an urgent one is sent before. */
const STATUS_DELAY_MS = 30;
/** Batches that may be sent without delay after an idle time. */
const BURST = 5;
/** A statement may send a batch itself while this many more could be sent without delay. */
const SPARE = 2;
/** Further pointers are dropped while Postgres is unavailable: readers check for changes after `reconnected`. */
const MAX_WAITING = 10_000;

interface Options {
  /** A direct connection, not through a pooler: LISTEN applies to one connection. */
  connectionString: string;
  /** Called with every error; the bus itself continues. */
  onError?: (error: unknown) => void;
}

/**
 * A bus over Postgres' NOTIFY, with two connections per process, one to publish and one to listen:
 *
 * 1. NOTIFY is sent on its own connection, or by a statement that has committed what it wrote, never in a transaction that
 *    writes: notifying transactions commit one at a time in the whole cluster.
 * 2. A process sends at most one batch every 5 ms; after an idle time the first few are sent at once, so that the pointers
 *    of a single turn are not delayed. Status pointers are batched for 30 ms. Pointers that arrive while a batch is being
 *    sent or delayed form the next batch, without duplicates.
 * 3. Only `close` waits for Postgres. While Postgres is unavailable a bounded number of pointers is kept.
 * 4. Whenever listening begins, including the first time, listeners receive `reconnected`.
 */
export function createPostgresBus({ connectionString, onError = () => {} }: Options): Bus {
  const listeners = new Listeners(onError);
  let listenings = 0;
  const listening = new LastingConnection({
    connectionString,
    applicationName: 'perdure listen',
    prepare: async (client) => {
      await listen(client, (event) => listeners.notify(event));
      listenings += 1;
    },
    onError,
  });
  const publisher = new Publisher(connectionString, onError);
  return {
    publish: (pointer) => publisher.publish(pointer),
    takeBatch: () => publisher.takeBatch(),
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

async function listen(client: pg.Client, deliver: (event: BusEvent) => void): Promise<void> {
  client.on('notification', ({ payload = '' }) => {
    for (const pointer of unpack(payload) ?? []) deliver(pointer);
  });
  await client.query(`LISTEN ${CHANNEL}`);
  deliver({ kind: 'reconnected' });
}

class Publisher {
  private readonly connection: LastingConnection;
  private readonly onError: (error: unknown) => void;
  private waiting: Pointer[] = [];
  private sending: Promise<void> | undefined;
  private statusDelay: NodeJS.Timeout | undefined;
  private closed = false;
  batches = 0;
  private readonly pacing = new Pace(BURST);

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
    if (pointer.kind === 'status' || pointer.kind === 'evicted')
      this.statusDelay ??= setTimeout(() => this.start(), STATUS_DELAY_MS);
    else this.start();
  }

  takeBatch(): boolean {
    if (this.sending || this.closed || !this.pacing.hasLeft(1 + SPARE, MERGE_MS)) return false;
    this.pacing.begin(MERGE_MS);
    this.batches += 1;
    return true;
  }

  async close(): Promise<void> {
    this.closed = true;
    this.start();
    await this.sending;
    await this.connection.close();
  }

  private start(): void {
    clearTimeout(this.statusDelay);
    this.statusDelay = undefined;
    if (this.sending || this.waiting.length === 0 || !this.connection.client) return;
    this.sending = this.sendWaiting().finally(() => {
      this.sending = undefined;
      this.start();
    });
  }

  /** Sends batches until no pointer is left. */
  private async sendWaiting(): Promise<void> {
    // Pointers that are published synchronously form one batch.
    await Promise.resolve();
    while (this.waiting.length > 0) {
      await this.pace();
      const { client } = this.connection;
      if (!client) return;
      await this.send(client, pack(this.waiting.splice(0), MAX_PAYLOAD_BYTES));
    }
  }

  /** Waits until the next batch may be sent, and counts it. */
  private async pace(): Promise<void> {
    const wait = this.pacing.waitMs(MERGE_MS);
    if (wait > 0 && !this.closed) await delay(wait);
    this.pacing.begin(MERGE_MS);
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
