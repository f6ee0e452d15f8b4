// Starts a worker or host as a child process. It logs JSON lines on stdout, one with the `msg` "ready" when it serves, and
// exits with code 0 on SIGTERM.
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { DevError } from './error.ts';
import { awaitEnded, writePidFile } from './pid-file.ts';
import { spawnTied, type TiedProcess } from './spawn-tied.ts';

type NodeProcessOptions = {
  name: string;
  /** The TypeScript file to run. */
  entry: string;
  env: NodeJS.ProcessEnv;
  /** Folder of its log file. */
  logDir: string;
  /** Time it has to exit after SIGTERM. */
  graceMs: number;
  /** Stops waiting for it to get ready, and stops it. */
  signal?: AbortSignal;
  /** Takes its warnings and errors, and output that is not a log line. */
  say: (line: string) => void;
};

/** The fields of a pino log line that are used here. */
type LogLine = { level: number; msg?: string; shown?: boolean; waiting?: boolean; err?: { message?: string } };

/** For NODE_COMPILE_CACHE: Node keeps compiled code in this folder, and a start then costs half the CPU. */
export const COMPILE_CACHE = path.join(import.meta.dirname, '..', 'node_modules', '.cache', 'perdure', 'compiled');
const PINO_WARN = 40;
const PINO_FATAL = 60;
const READY_MS = 120_000;
const REMEMBERED_LINES = 20;

/**
 * Starts the process and waits until it is ready.
 * @throws {DevError} ProgramFailed if it exits first or takes too long: with its last error, or its last lines of output
 */
export async function startNodeProcess(options: NodeProcessOptions): Promise<TiedProcess> {
  await mkdir(options.logDir, { recursive: true });
  const log = createWriteStream(path.join(options.logDir, `${options.name}.log`), { flags: 'a' });
  const child = await spawnTied(process.execPath, [options.entry], {
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...options.env },
    output: 'pipe',
    stopPlan: [{ signal: 'SIGTERM', waitMs: options.graceMs }],
  });
  await writePidFile(pidFile(options.logDir, options.name), child.pid);
  const lastLines: string[] = [];
  // It may wait for its user to mend a file.
  const waiting = new AbortController();
  const ready = Promise.withResolvers<undefined>();
  const outputRead = read(child, (line) => {
    log.write(`${line}\n`);
    lastLines.push(line);
    if (lastLines.length > REMEMBERED_LINES) lastLines.shift();
    const entry = parse(line);
    if (entry?.msg === 'ready') ready.resolve(undefined);
    if (entry?.waiting === true) waiting.abort();
    if (!entry) options.say(line);
    else if (entry.level >= PINO_WARN || entry.shown === true) options.say(describe(entry));
  });
  void outputRead.then(() => log.end());
  const failure = await Promise.race([
    ready.promise,
    // Its last lines, which say why, may be read later than it exits.
    Promise.all([child.exited, outputRead]).then(
      ([{ code, signal }]) => `it exited (${signal ?? `exit code ${code}`})`,
    ),
    late(READY_MS, waiting.signal),
    aborted(options.signal),
  ]);
  if (failure === undefined) return child;
  await child.stop();
  throw new DevError(
    'ProgramFailed',
    `${options.name} did not get ready: ${failure}\n${reasonIn(lastLines) ?? lastLines.join('\n')}`,
  );
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

/** Resolves when all lines have been taken. */
async function read(child: TiedProcess, take: (line: string) => void): Promise<void> {
  const outputs = [child.stdout, child.stderr].filter((stream) => stream !== null);
  await Promise.all(
    outputs.map((input) => {
      const lines = createInterface({ input }).on('line', take);
      return once(lines, 'close');
    }),
  );
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

/** Does not settle if the signal fires first. */
function late(ms: number, signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(`not ready within ${ms / 1000} s`), ms).unref();
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  });
}

function aborted(signal: AbortSignal | undefined): Promise<string> {
  return new Promise((resolve) => signal?.addEventListener('abort', () => resolve('it is to stop'), { once: true }));
}

/** The message of the fatal error in the last line, if that says what to do: it has no stack then. */
function reasonIn(lines: readonly string[]): string | undefined {
  const last = parse(lines.at(-1) ?? '');
  return last && last.level >= PINO_FATAL && last.err === undefined ? last.msg : undefined;
}
