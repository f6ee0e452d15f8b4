import { getEventListeners } from 'node:events';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Bus, type BusEvent, pack, type Pointer, unpack } from '../../bus/bus.ts';
import { LastingConnection } from '../../bus/connection.ts';
import { createPostgresBus } from '../../bus/postgres.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

const errors: unknown[] = [];
const onError = (error: unknown) => void errors.push(error);

/** All pointers that a listener receives, without `reconnected`. */
function pointersOn(bus: Bus): Pointer[] {
  const received: Pointer[] = [];
  bus.subscribe((event) => {
    if (event.kind !== 'reconnected') received.push(event);
  });
  return received;
}

function untilListening(bus: Bus): Promise<void> {
  return new Promise((resolve) => {
    const end = bus.subscribe((event) => {
      if (event.kind === 'reconnected') {
        end();
        resolve();
      }
    });
  });
}

const kinds: { name: string; make: () => Promise<{ here: Bus; there: Bus }> }[] = [
  {
    name: 'memory',
    make: async () => {
      const bus = createMemoryBus({ onError });
      return { here: bus, there: bus };
    },
  },
  {
    name: 'Postgres',
    make: async () => {
      const here = createPostgresBus({ connectionString: url, onError });
      const there = createPostgresBus({ connectionString: url, onError });
      await Promise.all([untilListening(here), untilListening(there)]);
      return { here, there };
    },
  },
];

let url: string;
beforeAll(async () => {
  url = await freshDatabase({ empty: true });
});

describe.each(kinds)('the bus in $name', ({ make }) => {
  let here: Bus;
  let there: Bus;
  beforeAll(async () => {
    ({ here, there } = await make());
  });
  afterAll(async () => {
    await Promise.all([here.close(), there.close()]);
  });

  it('R2 carries a pointer to listeners of every process, its own included', async () => {
    const [own, other] = [pointersOn(here), pointersOn(there)];
    const pointer: Pointer = { session: 'ses_1', run: 7, kind: 'stream' };
    here.publish(pointer);
    await eventually(() => expect([own, other]).toEqual([[pointer], [pointer]]));
  });

  it('keeps the order of the pointers of one publisher', async () => {
    const received = pointersOn(there);
    const pointers: Pointer[] = Array.from({ length: 50 }, (_, run) => ({ session: 'ses_order', run, kind: 'stream' }));
    for (const pointer of pointers) here.publish(pointer);
    await eventually(() => expect(received).toEqual(pointers));
  });

  it('does not call a listener that has unsubscribed', async () => {
    const events: BusEvent[] = [];
    const leave = there.subscribe((event) => void events.push(event));
    const received = pointersOn(there);
    leave();
    here.publish({ session: 'ses_left', kind: 'status' });
    await eventually(() => expect(received).toHaveLength(1));
    expect(events).toEqual([]);
  });

  it('continues when a listener throws', async () => {
    there.subscribe((event) => {
      if (event.kind === 'abort') throw new Error('a listener of this test');
    });
    const received = pointersOn(there);
    here.publish({ session: 'ses_throw', run: 1, kind: 'abort' });
    await eventually(() => expect(received).toHaveLength(1));
    expect(errors).toContainEqual(new Error('a listener of this test'));
  });

  it('does not publish once it is closed, and does not throw', async () => {
    const { here: closed } = await make();
    await closed.close();
    expect(() => closed.publish({ session: 'ses_closed', kind: 'status' })).not.toThrow();
  });
});

describe('the bus in Postgres', () => {
  let admin: pg.Client;
  let here: Bus;
  let there: Bus;
  beforeAll(async () => {
    admin = new pg.Client({ connectionString: url });
    await admin.connect();
    here = createPostgresBus({ connectionString: url });
    there = createPostgresBus({ connectionString: url });
    await Promise.all([untilListening(here), untilListening(there)]);
  });
  afterAll(async () => {
    await Promise.all([here.close(), there.close(), admin.end()]);
  });

  it('merges pointers that are published at about the same time, and drops duplicates', async () => {
    await admin.query('LISTEN perdure');
    const payloads: string[] = [];
    admin.on('notification', ({ payload = '' }) => void payloads.push(payload));
    const received = pointersOn(there);
    for (let at = 0; at < 500; at++) here.publish({ session: `ses_${at % 100}`, kind: 'stream' });
    here.publish({ session: 'ses_last', kind: 'status' });
    await eventually(() => expect(received.at(-1)?.session).toBe('ses_last'));
    expect(received).toHaveLength(101);
    expect(payloads.length).toBeLessThanOrEqual(3);
  });

  it('lets statements send pointers while few batches are sent, and counts them as batches', async () => {
    const idle = createPostgresBus({ connectionString: url });
    await untilListening(idle);
    const taken = Array.from({ length: 10 }, () => idle.takeBatch?.());
    expect(taken.slice(0, 3)).toEqual([true, true, true]);
    expect(taken).toContain(false);
    expect(idle.counts?.batches).toBe(taken.filter(Boolean).length);
    await eventually(() => expect(idle.takeBatch?.()).toBe(true));
    await idle.close();
    expect(idle.takeBatch?.()).toBe(false);
  });

  it('batches status pointers for a short time', async () => {
    await admin.query('LISTEN perdure');
    const payloads: string[] = [];
    admin.on('notification', ({ payload = '' }) => {
      if (payload.includes('ses_company')) payloads.push(payload);
    });
    const received = pointersOn(there);
    // So that the time is not over before the next pointer, however busy the machine is.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    here.publish({ session: 'ses_company', run: 1, kind: 'status' });
    await new Promise((resolve) => setImmediate(resolve));
    here.publish({ session: 'ses_company', run: 1, kind: 'stream' });
    vi.useRealTimers();
    await eventually(() => expect(received.map(({ kind }) => kind)).toEqual(['status', 'stream']));
    await eventually(() => expect(payloads).not.toHaveLength(0));
    expect(payloads).toHaveLength(1);
    here.publish({ session: 'ses_company', run: 1, kind: 'status' });
    await eventually(() => expect(received).toHaveLength(3));
  });

  it('sends pending pointers when it is closed', async () => {
    const brief = createPostgresBus({ connectionString: url });
    await untilListening(brief);
    const received = pointersOn(there);
    await eventually(() => {
      brief.publish({ session: 'ses_before', kind: 'stream' });
      expect(received.length).toBeGreaterThan(0);
    });
    brief.publish({ session: 'ses_brief', kind: 'status' });
    await brief.close();
    await eventually(() => expect(received.at(-1)?.session).toBe('ses_brief'));
  });

  it('listens and publishes again after its connections were terminated, and reports that', async () => {
    const listening = untilListening(there);
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'perdure %'",
    );
    await listening;
    const received = pointersOn(there);
    await eventually(() => {
      here.publish({ session: 'ses_again', kind: 'status' });
      expect(received.length).toBeGreaterThan(0);
    });
  });

  it('starts, publishes and closes without Postgres', async () => {
    const lost = createPostgresBus({ connectionString: 'postgres://nobody@127.0.0.1:1/none' });
    lost.publish({ session: 'ses_lost', kind: 'status' });
    await expect(lost.close()).resolves.toBeUndefined();
  });
});

it('R2 a connection that is replaced again and again leaves no listeners behind', async () => {
  const own = await freshDatabase({ empty: true });
  const killer = new pg.Client({ connectionString: own });
  await killer.connect();
  let connected = 0;
  const connection = new LastingConnection({
    connectionString: own,
    applicationName: 'perdure replaced',
    onConnected: () => (connected += 1),
    onError,
  });
  try {
    for (let n = 1; n <= 4; n += 1) {
      await eventually(() => expect(connected).toBe(n));
      await killer.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE datname = current_database() AND application_name = 'perdure replaced'`);
    }
    await eventually(() => expect(connected).toBe(5));
    expect(getEventListeners(connection['closing'].signal, 'abort').length).toBeLessThanOrEqual(1);
  } finally {
    await connection.close();
    await killer.end();
  }
});

it('R2 payloads stay below Postgres’ limit of 8,000 bytes, and no pointer is lost', () => {
  const pointers: Pointer[] = Array.from({ length: 400 }, (_, at) => ({
    session: `ses_0123456789ab${String(at).padStart(14, '0')}`,
    run: at,
    kind: 'stream',
  }));
  const payloads = pack([...pointers, ...pointers], 7_900);
  expect(Math.max(...payloads.map((text) => Buffer.byteLength(text)))).toBeLessThanOrEqual(7_900);
  expect(payloads.flatMap((text) => unpack(text))).toEqual(pointers);
});

it('a foreign payload is ignored', () => {
  expect(unpack('{')).toBeUndefined();
  expect(unpack('[{"session":1}]')).toBeUndefined();
});
