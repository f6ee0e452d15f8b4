import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { promisify } from 'node:util';

/** Nothing of the process's or the machine's: it can name programs that git runs. */
const environment = () => ({
  PATH: process.env['PATH'],
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: os.devNull,
  GIT_TERMINAL_PROMPT: '0',
});

/** Another signal does not end a process that is stopped or ignores it. */
const killed = { killSignal: 'SIGKILL' } as const;

/** Whether this machine has git. */
export async function hasGit(): Promise<boolean> {
  try {
    await promisify(execFile)('git', ['--version'], { env: environment(), ...killed, timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}

/** A git command on a bare repository, which answers on its output what it reads from its input. Disposing it kills it. */
export class GitCommand implements AsyncDisposable {
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly chunks: AsyncIterator<Buffer, undefined>;
  private readonly exited: Promise<void>;
  /** What has been read from its output and not been taken. */
  private rest: Buffer = Buffer.alloc(0);

  /** @param signal kills it: then every method throws, as it does with what it says if it fails */
  constructor(repository: string, args: readonly string[], signal: AbortSignal) {
    const env = { ...environment(), GIT_DIR: repository };
    this.child = spawn('git', args, { cwd: repository, env, signal, ...killed });
    // It rejects `exited`. Listened to before all else: a child that was not started may have no streams.
    this.child.on('error', () => {});
    this.chunks = this.child.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
    this.exited = this.exit(args[0] ?? '');
    this.child.stdin.on('error', () => {});
    this.exited.catch(() => {});
  }

  ask(question: string): void {
    this.child.stdin.write(question);
  }

  /** The next line of its output. */
  async line(): Promise<string> {
    let end = this.rest.indexOf('\n');
    while (end < 0) {
      this.rest = Buffer.concat([this.rest, await this.chunk()]);
      end = this.rest.indexOf('\n');
    }
    return this.take(end + 1).toString('utf8', 0, end);
  }

  /** The next bytes of its output. */
  async bytes(count: number): Promise<Buffer> {
    const chunks = [this.rest];
    for (let { length } = this.rest; length < count; length += chunks.at(-1)?.length ?? 0) {
      chunks.push(await this.chunk());
    }
    if (chunks.length > 1) this.rest = Buffer.concat(chunks);
    return this.take(count);
  }

  /** Ends its input, and waits until it has ended. */
  async end(): Promise<void> {
    this.child.stdin.end();
    await this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill(killed.killSignal);
    await this.exited.catch(() => {});
  }

  private take(count: number): Buffer {
    const part = this.rest.subarray(0, count);
    this.rest = this.rest.subarray(count);
    return part;
  }

  private async chunk(): Promise<Buffer> {
    const { value } = await this.chunks.next();
    if (value !== undefined) return value;
    await this.exited;
    throw new Error('git has said less than it was asked for');
  }

  private async exit(command: string): Promise<void> {
    let said = '';
    this.child.stderr.on('data', (data: Buffer) => (said += data.toString()));
    await Promise.all([once(this.child, 'exit'), once(this.child.stderr, 'end')]);
    if (this.child.exitCode !== 0) throw new Error(`git ${command} failed: ${said.trim().slice(0, 500)}`);
  }
}
