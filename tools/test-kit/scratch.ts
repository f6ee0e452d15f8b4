import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';

/** A folder of its own, not made yet, removed after the file. Other accounts can reach it. */
export function scratchDir(): string {
  const dir = path.join(tmpdir(), `perdure-test-${randomUUID()}`);
  afterAll(() => rm(dir, { recursive: true, force: true }));
  return dir;
}
