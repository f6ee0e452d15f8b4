import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Lag } from '../../activities/admission/stream-limit.ts';

const SAMPLE_MS = 100;
/** Resolution of Node's monitor: a timer of this many milliseconds, whose delays it records with this time included. */
const RESOLUTION_MS = 20;

/** Measures how late a worker is. */
export class LagMeter {
  private slowestWrite = 0;

  /** Notes a write that was committed this many seconds after the model's chunk. */
  wrote(seconds: number): void {
    this.slowestWrite = Math.max(this.slowestWrite, seconds * 1_000);
  }

  /** Gives a sample to `note` every tenth of a second until `stop`. */
  watch(note: (lag: Lag) => void, stop: AbortSignal): void {
    const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
    loop.enable();
    // It is never reset: it would forget when its timer fired last, and report nothing of a loop that is as late as this.
    let counted = { times: 0, sum: 0 };
    const sampling = setInterval(() => {
      const all = { times: loop.count, sum: loop.count === 0 ? 0 : loop.mean * loop.count };
      const times = all.times - counted.times;
      const mean = times === 0 ? 0 : (all.sum - counted.sum) / times / 1e6 - RESOLUTION_MS;
      counted = all;
      note({ loop: Math.max(0, mean), write: this.slowestWrite });
      this.slowestWrite = 0;
    }, SAMPLE_MS);
    stop.addEventListener('abort', () => {
      clearInterval(sampling);
      loop.disable();
    });
  }
}
