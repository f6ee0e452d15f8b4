// Starts a worker or host as a child process. It logs JSON lines on stdout, one with the `msg` "ready" when it serves, and
// exits with code 0 on SIGTERM.
import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { spawnTied, type TiedProcess } from './die-with-parent.ts';
import { awaitEnded, writePid } from './pid-file.ts';

type NodeProcessOptions = {
  name: string;
  /** The TypeScript file to run. */
  entry: string;
  env: NodeJS.ProcessEnv;
  /** Folder of its log file. */
  logDir: string;
  /** Time it has to exit after SIGTERM. */
  graceMs: number;
  /** Takes its warnings and errors, and output that is not a log line. */
  say: (line: string) => void;
};

/** The fields of a pino log line that are used here. */
type LogLine = { level: number; msg?: string; err?: { message?: string } };

/** For NODE_COMPILE_CACHE: Node keeps compiled code in this folder, and a start then costs half the CPU. */
export const COMPILE_CACHE = path.join(
  import.meta.dirname,
  '..',
  '..',
  'node_modules',
  '.cache',
  'perdure',
  'compiled',
);
const PINO_WARN = 40;
const READY_MS = 120_000;
const REMEMBERED_LINES = 20;

/**
 * Starts the process and waits until it is ready.
 * @throws {Error} with its last lines of output if it exits first or takes too long
 */
export async function startNodeProcess(options: NodeProcessOptions): Promise<TiedProcess> {
  await mkdir(options.logDir, { recursive: true });
  const log = createWriteStream(path.join(options.logDir, `${options.name}.log`), { flags: 'a' });
  const child = await spawnTied(process.execPath, [options.entry], {
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...options.env },
    output: 'pipe',
    stopPlan: [{ signal: 'SIGTERM', waitMs: options.graceMs }],
  });
  await writePid(pidFile(options.logDir, options.name), child.pid);
  void child.exited.then(() => log.end());
  const lastLines: string[] = [];
  const ready = new Promise<void>((resolve) => {
    read(child, log, (line) => {
      lastLines.push(line);
      if (lastLines.length > REMEMBERED_LINES) lastLines.shift();
      const entry = parse(line);
      if (entry?.msg === 'ready') resolve();
      if (!entry) options.say(line);
      else if (entry.level >= PINO_WARN) options.say(describe(entry));
    });
  });
  const failure = await Promise.race([
    ready,
    child.exited.then(({ code, signal }) => `it exited (${signal ?? `exit code ${code}`})`),
    late(READY_MS),
  ]);
  if (failure === undefined) return child;
  await child.stop();
  throw new Error(`${options.name} did not get ready: ${failure}\n${lastLines.join('\n')}`);
}

/**
 * Waits until the process of an earlier start has exited.
 * @throws {DevError} AlreadyRunning if the process that started it still runs
 */
export async function awaitPrevious({ name, entry, logDir }: Pick<NodeProcessOptions, 'name' | 'entry' | 'logDir'>) {
  await awaitEnded(pidFile(logDir, name), [entry]);
}

function pidFile(logDir: string, name: string): string {
  return path.join(logDir, `${name}.pid`);
}

function read(child: TiedProcess, log: WriteStream, take: (line: string) => void): void {
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    createInterface({ input: stream }).on('line', (line) => {
      if (log.writable) log.write(`${line}\n`);
      take(line);
    });
  }
}

/** The line as a pino log line, else undefined. */
function parse(line: string): LogLine | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const entry = JSON.parse(line) as LogLine;
    return typeof entry.level === 'number' ? entry : undefined;
  } catch {
    return undefined;
  }
}

function describe({ msg, err }: LogLine): string {
  return [msg, err?.message].filter((text) => text !== undefined && text !== '').join(': ');
}

function late(ms: number): Promise<string> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(`not ready within ${ms / 1000} s`), ms).unref();
  });
}
