import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { endWhenSilent } from '../../worker/workflow-threads.ts';

const LOOK_MS = 30;

/** A thread that counts a beat each 5 ms, and loops for ever when the second number is set. */
function beating(): { thread: Worker; beats: Int32Array } {
  const beats = new Int32Array(new SharedArrayBuffer(8));
  const code = `
    const { beats } = require('node:worker_threads').workerData;
    setInterval(() => {
      Atomics.add(beats, 0, 1);
      while (Atomics.load(beats, 1) === 1);
    }, 5);`;
  return { thread: new Worker(code, { eval: true, workerData: { beats } }), beats };
}

it('W1 a thread of workflows that loops for ever is ended, and no other', async () => {
  const [loops, works] = [beating(), beating()];
  for (const { thread, beats } of [loops, works]) {
    await eventually(() => expect(Atomics.load(beats, 0)).toBeGreaterThan(0));
    endWhenSilent(thread, beats, LOOK_MS);
  }
  const ended = once(loops.thread, 'exit');
  Atomics.store(loops.beats, 1, 1);
  await ended;
  const before = Atomics.load(works.beats, 0);
  await eventually(() => expect(Atomics.load(works.beats, 0)).toBeGreaterThan(before + 10));
  await works.thread.terminate();
});
