// A process of the system that is killed and restarted.
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Exit } from '../../dev/spawn-tied.ts';

/** A running process. */
export interface Running {
  pid: number;
  exited: Promise<Exit>;
  stop(): Promise<unknown>;
}

const PATIENCE_MS = 60_000;
const AGAIN_MS = 200;
/** A server that cannot continue exits within this. */
const ENDS_WITHIN_MS = 1_000;

/** A server or process of the campaign. At most one instance runs; starting is retried until it works. */
export class Part {
  readonly name: string;
  /** Pids of all instances so far. */
  readonly pids: number[] = [];
  /** How it has exited by itself, each time, if it is one that must not. */
  readonly exits: Exit[] = [];
  private readonly start: () => Promise<Running>;
  private readonly mustRun: boolean;
  private running: Running | undefined;
  private starting: Promise<void> | undefined;
  private closed = false;

  /** @param options `mustRun`: it never exits by itself; if it does, that is noted, and it is started again */
  constructor(name: string, start: () => Promise<Running>, { mustRun = false } = {}) {
    this.name = name;
    this.start = start;
    this.mustRun = mustRun;
  }

  /** Undefined while it is down or starting. */
  get pid(): number | undefined {
    return this.running?.pid;
  }

  /** Starts it unless it is running. */
  up(): Promise<void> {
    this.starting ??= this.comeUp().finally(() => (this.starting = undefined));
    return this.starting;
  }

  /** Ends it by a signal and restarts it after a pause. Settles when it is back. */
  async bounce(signal: NodeJS.Signals, pauseMs: number): Promise<void> {
    const { running } = this;
    if (running === undefined) return;
    this.running = undefined;
    kill(running.pid, signal);
    await running.exited;
    await delay(pauseMs);
    await this.up();
  }

  /** Suspends it and its child processes for `ms`: Postgres works in its children. */
  async freeze(ms: number): Promise<void> {
    const { running } = this;
    if (running === undefined) return;
    // The parent first, so that it forks no more children.
    kill(running.pid, 'SIGSTOP');
    const children = await childrenOf(running.pid);
    for (const pid of children) kill(pid, 'SIGSTOP');
    await delay(ms);
    for (const pid of [...children, running.pid]) kill(pid, 'SIGCONT');
  }

  /** Restarts it if it has exited by itself. */
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

  private async keepUp(running: Running): Promise<void> {
    const exit = await running.exited;
    if (this.running !== running || this.closed) return;
    this.exits.push(exit);
    this.running = undefined;
    await this.up().catch(() => {});
  }

  private async comeUp(): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (this.running === undefined && !this.closed) {
      try {
        const running = await this.start();
        this.pids.push(running.pid);
        this.running = running;
        if (this.mustRun) void this.keepUp(running);
      } catch (error) {
        if (Date.now() > deadline) throw error;
        await delay(AGAIN_MS);
      }
    }
  }
}

/** Child processes, where the system lists them. */
async function childrenOf(pid: number): Promise<number[]> {
  const pids = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return pids.trim() === '' ? [] : pids.trim().split(' ').map(Number);
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already exited.
  }
}
