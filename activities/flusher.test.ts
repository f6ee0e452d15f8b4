import { expect, it } from 'vitest';
import { Flusher } from './flusher.ts';
import { type Batch, PartRows } from '../agent/part-rows.ts';

it('T5 no writes after a lost batch', async () => {
  const rows = new PartRows(0);
  const written: Batch[] = [];
  const { promise: lost, reject: lose } = Promise.withResolvers<never>();
  let failures = 0;
  const flusher = new Flusher(
    rows,
    { ms: 0, size: 1 },
    {
      write: async (batch) => {
        if (batch.deltas.length > 0) return lost;
        written.push(batch);
        return 'live';
      },
      stopped: () => {},
      failed: () => (failures += 1),
    },
  );
  const say = (delta: string) => {
    rows.add({ type: 'text-delta', id: '1', delta });
    flusher.chunk();
  };
  rows.add({ type: 'text-start', id: '1' });
  say('one ');
  await expect.poll(() => written.length).toBe(1);
  say('two ');
  say('three ');
  lose(new Error('Postgres went away'));
  await expect(flusher.stop()).rejects.toThrow('Postgres went away');
  expect(failures).toBe(1);
  expect(written).toHaveLength(1);
});
