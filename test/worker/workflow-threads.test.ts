import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { hangCheck } from '../../worker/workflow-threads.ts';

/** More than a thread may miss. */
const CHECKS = 20;

/** A thread that counts a heartbeat every 5 ms, and loops forever once the second number is 1. */
function counting(): { thread: Worker; heartbeats: Int32Array } {
  const heartbeats = new Int32Array(new SharedArrayBuffer(8));
  const code = `
    const { heartbeats } = require('node:worker_threads').workerData;
    setInterval(() => {
      Atomics.add(heartbeats, 0, 1);
      while (Atomics.load(heartbeats, 1) === 1);
    }, 5);`;
  return { thread: new Worker(code, { eval: true, workerData: { heartbeats } }), heartbeats };
}

it('W1 a workflow thread in an endless loop is terminated, and no other', async () => {
  const [loops, works] = [counting(), counting()];
  const ended = once(loops.thread, 'exit');
  Atomics.store(loops.heartbeats, 1, 1);
  await eventually(() => expect(Atomics.load(loops.heartbeats, 0)).toBe(1));
  const checks = [loops, works].map(({ thread, heartbeats }) => hangCheck(thread, heartbeats));
  for (let n = 0; n < CHECKS; n += 1) {
    const before = Atomics.load(works.heartbeats, 0);
    await eventually(() => expect(Atomics.load(works.heartbeats, 0)).toBeGreaterThan(before));
    for (const check of checks) check();
  }
  await ended;
  const before = Atomics.load(works.heartbeats, 0);
  await eventually(() => expect(Atomics.load(works.heartbeats, 0)).toBeGreaterThan(before + 10));
  await works.thread.terminate();
});
