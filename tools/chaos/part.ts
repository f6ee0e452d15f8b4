// Something of the system that is killed and comes back.
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Exit } from '../dev/die-with-parent.ts';

/** What is running: a process of ours. */
export interface Running {
  pid: number;
  exited: Promise<Exit>;
  stop(): Promise<unknown>;
}

const PATIENCE_MS = 60_000;
const AGAIN_MS = 200;
/** A server that cannot go on ends by itself within this. */
const ENDS_WITHIN_MS = 1_000;

/** A server or process of the campaign. At most one of it runs, and it is started again for as long as it takes. */
export class Part {
  readonly name: string;
  /** Of every process that it ever was. */
  readonly pids: number[] = [];
  private readonly start: () => Promise<Running>;
  private running: Running | undefined;
  private starting: Promise<void> | undefined;
  private closed = false;

  constructor(name: string, start: () => Promise<Running>) {
    this.name = name;
    this.start = start;
  }

  /** Undefined while it is away or on its way back. */
  get pid(): number | undefined {
    return this.running?.pid;
  }

  /** Starts it unless it runs. */
  up(): Promise<void> {
    this.starting ??= this.comeUp().finally(() => (this.starting = undefined));
    return this.starting;
  }

  /** Sends a signal that ends it, and starts it again after a pause. Settles when it is back. */
  async bounce(signal: NodeJS.Signals, pauseMs: number): Promise<void> {
    const { running } = this;
    if (running === undefined) return;
    this.running = undefined;
    kill(running.pid, signal);
    await running.exited;
    await delay(pauseMs);
    await this.up();
  }

  /** Stops it for a time without ending it, with the processes of its own that it has: Postgres works in those. */
  async freeze(ms: number): Promise<void> {
    const { running } = this;
    if (running === undefined) return;
    // First itself, so that no more of them come.
    kill(running.pid, 'SIGSTOP');
    const children = await childrenOf(running.pid);
    for (const pid of children) kill(pid, 'SIGSTOP');
    await delay(ms);
    for (const pid of [...children, running.pid]) kill(pid, 'SIGCONT');
  }

  /** Starts it again if it has ended by itself. */
  async revive(): Promise<void> {
    const { running } = this;
    if (running === undefined) return;
    const ended = await Promise.race([running.exited.then(() => true), delay(ENDS_WITHIN_MS).then(() => false)]);
    if (!ended || this.running !== running) return;
    this.running = undefined;
    await this.up();
  }

  async down(): Promise<void> {
    this.closed = true;
    await this.starting?.catch(() => {});
    if (this.running === undefined) return;
    kill(this.running.pid, 'SIGCONT');
    await this.running.stop();
    this.running = undefined;
  }

  private async comeUp(): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (this.running === undefined && !this.closed) {
      try {
        const running = await this.start();
        this.pids.push(running.pid);
        this.running = running;
      } catch (error) {
        if (Date.now() > deadline) throw error;
        await delay(AGAIN_MS);
      }
    }
  }
}

/** Where the system shows them. */
async function childrenOf(pid: number): Promise<number[]> {
  const pids = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return pids.trim() === '' ? [] : pids.trim().split(' ').map(Number);
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
