import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { terminateWhenHung } from '../../worker/workflow-threads.ts';

const CHECK_MS = 30;

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
  for (const { thread, heartbeats } of [loops, works]) {
    await eventually(() => expect(Atomics.load(heartbeats, 0)).toBeGreaterThan(0));
    terminateWhenHung(thread, heartbeats, CHECK_MS);
  }
  const ended = once(loops.thread, 'exit');
  Atomics.store(loops.heartbeats, 1, 1);
  await ended;
  const before = Atomics.load(works.heartbeats, 0);
  await eventually(() => expect(Atomics.load(works.heartbeats, 0)).toBeGreaterThan(before + 10));
  await works.thread.terminate();
});
