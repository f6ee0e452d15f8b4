// The SDK's workflow thread with a lean sandbox and a heartbeat. Only our own workflows run here.
import { pathToFileURL } from 'node:url';
import { workerData } from 'node:worker_threads';
import { useLeanSandbox } from './lean-sandbox.ts';
import type { ThreadData } from './own-workflow-threads.ts';

const HEARTBEAT_MS = 1_000;

const { sdkEntry, heartbeats, leftOut } = workerData as ThreadData;
useLeanSandbox(leftOut);
const beat = () => Atomics.add(heartbeats, 0, 1);
beat();
setInterval(beat, HEARTBEAT_MS).unref();

await import(pathToFileURL(sdkEntry).href);
