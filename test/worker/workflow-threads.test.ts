import { once } from 'node:events';
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { MISSED_CHECKS, terminateWhenHung, useOwnWorkflowThreads } from '../../worker/sandbox/own-workflow-threads.ts';

/** A thread that counts a heartbeat every 5 ms, or only one and then loops forever. Its checks are made by hand. */
async function counting({ loops }: { loops: boolean }) {
  const heartbeats = new Int32Array(new SharedArrayBuffer(4));
  const code = `
    const { heartbeats, loops } = require('node:worker_threads').workerData;
    setInterval(() => {
      Atomics.add(heartbeats, 0, 1);
      while (loops);
    }, 5);`;
  const thread = new Worker(code, { eval: true, workerData: { heartbeats, loops } });
  const state = { hasEnded: false, isChecked: true };
  thread.once('exit', () => (state.hasEnded = true));
  let check: (() => void) | undefined;
  terminateWhenHung(thread, heartbeats, (given) => {
    check = given;
    return () => (state.isChecked = false);
  });
  const count = () => Atomics.load(heartbeats, 0);
  await eventually(() => expect(count()).toBeGreaterThan(0));
  return { thread, state, count, check: check! };
}

it('W1 a workflow thread in an endless loop is terminated, and no other', async () => {
  const [hung, works] = await Promise.all([counting({ loops: true }), counting({ loops: false })]);
  const beat = async (beats: number) => {
    const before = works.count();
    await eventually(() => expect(works.count()).toBeGreaterThanOrEqual(before + beats));
  };
  const checkBoth = async () => {
    await beat(1);
    for (const { check } of [hung, works]) check();
  };
  // The first check only learns the count.
  for (let n = 0; n < MISSED_CHECKS; n += 1) await checkBoth();
  await beat(10);
  expect(hung.state.hasEnded).toBe(false);
  const ended = once(hung.thread, 'exit');
  await checkBoth();
  await ended;
  expect(hung.state.isChecked).toBe(false);
  for (let n = 0; n < MISSED_CHECKS; n += 1) await checkBoth();
  await beat(10);
  expect(works.state).toEqual({ hasEnded: false, isChecked: true });
  await works.thread.terminate();
});

it('W1 a workflow thread has the data of its creator besides the heartbeats', async () => {
  useOwnWorkflowThreads();
  const require = createRequire(import.meta.url);
  const { Worker: Installed } = require('node:worker_threads') as { Worker: typeof Worker };
  const tell = `
    import { parentPort, workerData } from 'node:worker_threads';
    parentPort.postMessage(Object.keys(workerData).toSorted());`;
  const thread = new Installed(require.resolve('@temporalio/worker/lib/workflow/workflow-worker-thread.js'), {
    workerData: { given: true },
    execArgv: ['--import', `data:text/javascript,${encodeURIComponent(tell)}`],
  });
  expect(await once(thread, 'message')).toEqual([['given', 'heartbeats', 'leftOut', 'sdkEntry']]);
  await thread.terminate();
});
