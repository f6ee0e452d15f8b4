// Disk faults of Postgres: a file system of limited size that can be filled, and slow commits.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { spawnTied } from '../../dev/spawn-tied.ts';

/** A mounted file system. */
export interface Disk {
  /** Writes a file until no space is left. */
  fill(): Promise<void>;
  /** Removes that file. */
  free(): Promise<void>;
  unmount(): Promise<void>;
}

const SIZE = '640m';
const BALLAST = 'ballast';
const CHUNK = Buffer.alloc(1024 * 1024);

/** Unmounts on SIGTERM, which it also gets when this process dies. */
const GUARD = 'trap \'umount -l "$1"; exit 0\' TERM; while :; do sleep 1 & wait $!; done';

/** Mounts a tmpfs of 640 MB at `dir`. Undefined: this account may not mount, or the system has no tmpfs. */
export async function mountDisk(dir: string): Promise<Disk | undefined> {
  mkdirSync(dir, { recursive: true });
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=755`, 'tmpfs', dir]);
  if (mounted.status !== 0) return undefined;
  const guard = await spawnTied('/bin/sh', ['-c', GUARD, 'guard', dir], {
    stopPlan: [{ signal: 'SIGTERM', waitMs: 5_000 }],
    output: 'ignore',
  });
  const ballast = path.join(dir, BALLAST);
  return {
    fill: async () => {
      await using file = await open(ballast, 'a');
      for (;;) {
        const written = await file.write(CHUNK).catch((error: unknown) => {
          if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return { bytesWritten: 0 };
          throw error;
        });
        if (written.bytesWritten < CHUNK.length) return;
      }
    },
    free: () => rm(ballast, { force: true }),
    unmount: async () => void (await guard.stop()),
  };
}

/** Largest `commit_delay` of Postgres, in microseconds: the wait before WAL is flushed. */
const COMMIT_DELAY_US = 100_000;
const AGAIN_MS = 200;

/** Every commit takes 100 ms longer, as on a slow disk, until `over` settles. */
export async function slowCommits(db: pg.Pool, over: Promise<unknown>): Promise<void> {
  await set(db, [`commit_delay = ${COMMIT_DELAY_US}`, 'commit_siblings = 0']);
  await over;
  await set(db, ['commit_delay = 0', 'commit_siblings = 5']);
}

/** Changes server settings; retries while Postgres is away. */
async function set(db: pg.Pool, settings: readonly string[]): Promise<void> {
  for (;;) {
    try {
      for (const setting of settings) await db.query(`ALTER SYSTEM SET ${setting}`);
      await db.query('SELECT pg_reload_conf()');
      return;
    } catch {
      await delay(AGAIN_MS);
    }
  }
}
