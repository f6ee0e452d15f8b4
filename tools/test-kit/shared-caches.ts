// What tests that start programs in folders of their own share, as it takes long to make.
import { existsSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import path from 'node:path';
import { parseConfig } from '../../config/config.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

/** Makes a folder for PERDURE_DIR, with the workflow bundles of all tests. */
export async function withSharedBundles(dir: string): Promise<void> {
  const bundles = path.join(ROOT, 'node_modules', '.cache', 'perdure');
  await Promise.all([mkdir(dir), mkdir(bundles, { recursive: true })]);
  await symlink(bundles, path.join(dir, 'cache'));
}

/** The setting that names the Temporal CLI, if it is named or in this installation's cache; otherwise programs look for it. */
export function temporalCli(): { TEMPORAL_CLI_PATH?: string } {
  const cached = path.join(parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] }).dir, 'bin', 'temporal-1.9.1');
  const named = process.env['TEMPORAL_CLI_PATH'] ?? (existsSync(cached) ? cached : undefined);
  return named === undefined ? {} : { TEMPORAL_CLI_PATH: named };
}
