import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DevError } from './error.ts';
import { isRunning } from './is-running.ts';

const POLL_MS = 50;
/** How long a server that is already stopping may take (its starter was just killed). */
const STOPPING_MS = 30_000;
/** How long a running server may take to begin to stop. */
const WORKING_MS = 3_000;

/** The contents of postmaster.pid: the server that uses the cluster. */
type Lock = { pid: number; port: string; stopping: boolean };

/**
 * Waits until no server uses the cluster, and deletes a lock file left by a crash: Postgres itself refuses to start if any
 * process has the pid in it.
 * @throws {DevError} PostgresInUse if a live server keeps running
 */
export async function awaitPostgresLock(data: string): Promise<void> {
  const started = Date.now();
  for (;;) {
    const lock = await readLock(data);
    if (!lock) return;
    if (!isRunning(lock.pid, ['postgres', data])) {
      await rm(path.join(data, 'postmaster.pid'), { force: true });
      return;
    }
    if (Date.now() - started > (lock.stopping ? STOPPING_MS : WORKING_MS)) {
      throw new DevError(
        'PostgresInUse',
        `${data} is in use by a running Postgres (pid ${lock.pid}, port ${lock.port}): stop what started it, or use another PERDURE_DIR`,
      );
    }
    await delay(POLL_MS);
  }
}

async function readLock(data: string): Promise<Lock | undefined> {
  const text = await readFile(path.join(data, 'postmaster.pid'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split('\n');
  return { pid: Number(lines[0]), port: lines[3] ?? '?', stopping: lines[7]?.trim() === 'stopping' };
}
