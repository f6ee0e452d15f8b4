// A process of ours (worker, host) as a child. It logs JSON lines on stdout; the one whose `msg` is "ready" says that
// it serves. It ends with code 0 on SIGTERM.
import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { spawnTied, type TiedProcess } from './die-with-parent.ts';
import { awaitEnded, notePid } from './pid-file.ts';

type NodeProcessOptions = {
  name: string;
  /** The TypeScript file to run. */
  entry: string;
  env: NodeJS.ProcessEnv;
  /** Folder for its log. */
  logDir: string;
  /** How long it may take to end. */
  graceMs: number;
  /** Takes what it logs as a warning or worse, and what is not a log line. */
  say: (line: string) => void;
};

/** What we look at in a line of pino. */
type LogLine = { level: number; msg?: string; err?: { message?: string } };

const PINO_WARN = 40;
const READY_MS = 120_000;
const REMEMBERED_LINES = 20;

/**
 * Starts the process and waits until it says that it is ready.
 * @throws with its last words when it ends before
 */
export async function startNodeProcess(options: NodeProcessOptions): Promise<TiedProcess> {
  await mkdir(options.logDir, { recursive: true });
  const log = createWriteStream(path.join(options.logDir, `${options.name}.log`), { flags: 'a' });
  const child = await spawnTied(process.execPath, [options.entry], {
    env: options.env,
    output: 'pipe',
    stopPlan: [{ signal: 'SIGTERM', waitMs: options.graceMs }],
  });
  await notePid(pidFile(options.logDir, options.name), child.pid);
  void child.exited.then(() => log.end());
  const lastWords: string[] = [];
  const ready = new Promise<void>((resolve) => {
    read(child, log, (line) => {
      lastWords.push(line);
      if (lastWords.length > REMEMBERED_LINES) lastWords.shift();
      const entry = parse(line);
      if (entry?.msg === 'ready') resolve();
      if (!entry) options.say(line);
      else if (entry.level >= PINO_WARN) options.say(describe(entry));
    });
  });
  const failure = await Promise.race([
    ready,
    child.exited.then(({ code, signal }) => `it ended (${signal ?? `exit code ${code}`})`),
    late(READY_MS),
  ]);
  if (failure === undefined) return child;
  await child.stop();
  throw new Error(`${options.name} did not get ready: ${failure}\n${lastWords.join('\n')}`);
}

/**
 * Waits until the process of an earlier start has ended.
 * @throws {DevError} AlreadyRunning when its starter still runs
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

/** A line of pino, else undefined. */
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
    setTimeout(() => resolve(`it said nothing within ${ms / 1000} s`), ms).unref();
  });
}
