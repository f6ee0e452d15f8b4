// The thread that holds a worker's lease for lease.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { LeaseKeeper } from './lease-keeper.ts';
import type { FromThread, LeaseData, ToThread } from './lease.ts';

if (parentPort === null) throw new Error('lease-thread.ts is the entry of a thread');
const port = parentPort;
const send = (message: FromThread) => port.postMessage(message);
const keeper = new LeaseKeeper({
  ...(workerData as LeaseData),
  onLost: (worker, work) => send({ kind: 'lost', worker, work }),
  onMistaken: () => send({ kind: 'mistaken' }),
  onError: (error) => send({ kind: 'error', error }),
});

port.on('message', (message: ToThread) => {
  switch (message.kind) {
    case 'begin':
      return keeper.begin(message.number, message.token);
    case 'end':
      return keeper.end(message.number);
    case 'forget':
      return void keeper.forget(message.worker);
    case 'close':
      return void keeper.close().finally(() => port.close());
  }
});
