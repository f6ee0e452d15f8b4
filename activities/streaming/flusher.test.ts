import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ChunksToRows } from '../../agent/parts/chunks-to-rows.ts';
import type { StreamBatch, StreamState } from '../../store/streams.ts';
import { Flusher } from './flusher.ts';
import { StreamWriter } from './stream-writer.ts';

const claim = { sessionId: 'ses_1', runSeq: 1, fence: [1, 1, 1] as const };

it('T5 no writes after a lost batch', async () => {
  const rows = new ChunksToRows(0);
  const written: StreamBatch[] = [];
  const { promise: lost, reject: lose } = Promise.withResolvers<never>();
  let failures = 0;
  const store = async ({ batch }: { batch: StreamBatch }): Promise<'live'> => {
    if (batch.deltas.length > 0) return lost;
    written.push(batch);
    return 'live';
  };
  const statements = {
    shared: (writes: readonly { batch: StreamBatch }[]) => Promise.all(writes.map(store)),
    alone: store,
  };
  const writer = new StreamWriter(statements, { ms: 0 });
  const flusher = new Flusher(rows, writer, 1, {
    ready: () => Promise.resolve(),
    take: () => ({ claim, batch: { metadata: null, parts: null, deltas: rows.take().deltas, length: 1 } }),
    write: async (write, landing): Promise<StreamState> => (await landing) ?? writer.writeAlone(write),
    stopped: () => {},
    failed: () => (failures += 1),
  });
  const say = (delta: string) => {
    rows.add({ type: 'text-delta', id: '1', delta });
    flusher.chunk();
  };
  rows.add({ type: 'text-start', id: '1' });
  say('one ');
  await expect.poll(() => written.length).toBe(1);
  say('two ');
  say('three ');
  await expect.poll(() => rows.dirty).toBe(false);
  say('four');
  lose(new Error('Postgres went away'));
  await expect(flusher.stop()).rejects.toThrow('Postgres went away');
  expect(failures).toBe(1);
  expect(written).toHaveLength(1);
});

it('T5 a stop does not wait until the first batch may be written', async () => {
  const rows = new ChunksToRows(0);
  const { promise: ready, resolve: open } = Promise.withResolvers<void>();
  const store = () => Promise.reject(new Error('written after the stop'));
  const flusher = new Flusher(rows, new StreamWriter({ shared: store, alone: store }, { ms: 0 }), 1, {
    ready: () => ready,
    take: () => ({ claim, batch: { metadata: null, parts: null, deltas: rows.take().deltas, length: 1 } }),
    write: (_write, landing) => landing.then(store),
    stopped: () => {},
    failed: () => {},
  });
  rows.add({ type: 'text-start', id: '1' });
  rows.add({ type: 'text-delta', id: '1', delta: 'word' });
  flusher.chunk();
  await flusher.stop();
  open();
  await ready;
  // A write would begin then.
  await setImmediate();
  expect(rows.dirty).toBe(true);
});
