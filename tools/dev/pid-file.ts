// Keeps two of a kind from running at once: a file says which process has it, and who started that.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DevError } from './error.ts';
import { isRunning } from './is-running.ts';

const POLL_MS = 50;
/** What is stopping because its starter was killed gets this long to finish. */
const STOPPING_MS = 30_000;

/** Notes a process that we have started. */
export async function notePid(file: string, pid: number): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `${pid} ${process.pid}\n`);
}

/**
 * Waits until the process that the file notes has ended.
 * @param words what its command line holds, to tell it from another that has its pid now
 * @throws {DevError} AlreadyRunning when it goes on: at once when its starter lives, else when it takes too long
 */
export async function awaitEnded(file: string, words: readonly string[]): Promise<void> {
  const noted = await readFile(file, 'utf8').catch(() => '');
  const [pid = 0, starter = 0] = noted.trim().split(' ').map(Number);
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
