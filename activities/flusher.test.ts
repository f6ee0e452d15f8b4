import { expect, it } from 'vitest';
import { Flusher } from './flusher.ts';
import { type Batch, Recorder } from './recorder.ts';

it('T5 what came behind words that could not be written is not written either', async () => {
  const recorder = new Recorder(0);
  const landed: Batch[] = [];
  const { promise: lost, reject: lose } = Promise.withResolvers<never>();
  let failures = 0;
  const flusher = new Flusher(
    recorder,
    { ms: 0, size: 1 },
    {
      land: async (batch) => {
        if (batch.deltas.length > 0) return lost;
        landed.push(batch);
        return 'live';
      },
      stopped: () => {},
      failed: () => (failures += 1),
    },
  );
  const say = (delta: string) => {
    recorder.add({ type: 'text-delta', id: '1', delta });
    flusher.chunk();
  };
  recorder.add({ type: 'text-start', id: '1' });
  say('one ');
  await expect.poll(() => landed.length).toBe(1);
  say('two ');
  say('three ');
  lose(new Error('Postgres went away'));
  await expect(flusher.stop()).rejects.toThrow('Postgres went away');
  expect(failures).toBe(1);
  expect(landed).toHaveLength(1);
});
