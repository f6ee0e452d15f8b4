// Prevents two servers on one folder: a file holds the pid of the running one, and of the process that started it. A lock
// held by the starter would not do: after a SIGKILL of the starter, the server is still stopping.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DevError } from './error.ts';
import { isRunning } from './is-running.ts';

const POLL_MS = 50;
/** How long a process may take to stop after its starter was killed. */
const STOPPING_MS = 30_000;

/** Writes the pid of a process that this one has started. */
export async function writePidFile(file: string, pid: number): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `${pid} ${process.pid}\n`);
}

/**
 * Waits until the process in the file has exited.
 * @param words parts of its command line, to tell it from another process with the same pid
 * @throws {DevError} AlreadyRunning, at once if its starter still runs, else after 30 s
 */
export async function awaitEnded(file: string, words: readonly string[]): Promise<void> {
  const written = await readFile(file, 'utf8').catch(() => '');
  const [pid = 0, starter = 0] = written.trim().split(' ').map(Number);
  const deadline = Date.now() + STOPPING_MS;
  if (pid === 0) return;
  while (isRunning(pid, words)) {
    if (isRunning(starter, ['node']) || Date.now() > deadline) {
      throw new DevError(
        'AlreadyRunning',
        `${path.basename(file, '.pid')} is already running on ${path.dirname(file)} (pid ${pid}, started by ${starter}): stop that, or use another PERDURE_DIR`,
      );
    }
    await delay(POLL_MS);
  }
}
