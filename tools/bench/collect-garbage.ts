// Loaded first by each thread of a measured worker: at SIGWINCH all of them collect their garbage, and give back what is free.
// Not at SIGUSR2, at which Temporal's SDK shuts down.
import v8 from 'node:v8';
import vm from 'node:vm';
import { BroadcastChannel, isMainThread } from 'node:worker_threads';

v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc') as (options: object) => void;
const collectAll = () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
const threads = new BroadcastChannel('collect garbage');
threads.addEventListener('message', collectAll);
threads.unref();
if (isMainThread) {
  process.on('SIGWINCH', () => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no other origins
    threads.postMessage(undefined);
    collectAll();
  });
}
