import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterFile } from './after-file.ts';

/** The path of a temporary folder, not yet created, that other accounts can reach. Deleted after the file. */
export function scratchDir(): string {
  const dir = path.join(tmpdir(), `perdure-test-${randomUUID()}`);
  afterFile(() => rm(dir, { recursive: true, force: true }));
  return dir;
}
