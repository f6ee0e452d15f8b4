import { Worker } from 'node:worker_threads';

/** The tests are meant for two cores. */
const THREADS = 2;
/** What the calculation takes on a quick machine where nothing else runs. */
const QUICK_MS = 250;
const MOST = 10;

/** Xorshift in plain JavaScript, because processors differ most in what they have instructions for. */
const CALCULATION = `
  let x = 1;
  for (let n = 0; n < 5e7; n += 1) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; }
  require('node:worker_threads').parentPort.postMessage(x);
`;

/** How many times longer than on a quick machine with two cores a fixed calculation on both takes here, now: 1 to 10. */
export async function measureSlowness(): Promise<number> {
  const started = performance.now();
  await Promise.all(Array.from({ length: THREADS }, calculate));
  const ratio = (performance.now() - started) / QUICK_MS;
  return Math.min(MOST, Math.max(1, Math.round(ratio * 10) / 10));
}

function calculate(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const thread = new Worker(CALCULATION, { eval: true });
  thread.once('message', () => resolve());
  thread.once('error', reject);
  return promise;
}
