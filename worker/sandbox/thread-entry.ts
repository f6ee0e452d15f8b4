// The SDK's workflow thread with a lean sandbox and a heartbeat. Only our own workflows run here.
import { workerData } from 'node:worker_threads';
import { useLeanSandbox } from './lean-sandbox.ts';

const HEARTBEAT_MS = 1_000;

useLeanSandbox();
const { heartbeats } = workerData as { heartbeats: Int32Array };
setInterval(() => Atomics.add(heartbeats, 0, 1), HEARTBEAT_MS).unref();

await import('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
