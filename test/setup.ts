// Loaded before every test file.
import path from 'node:path';
import { afterAll, type RunnerTask } from 'vitest';
import { cleanUp } from '../tools/test-kit/after-file.ts';
import { keptFolder } from '../tools/test-kit/failed-file.ts';
import { patient } from '../tools/test-kit/patient.ts';

const CLEANUP_MS = patient(60_000);

// oxlint-disable-next-line eslint/no-empty-pattern -- Vitest accepts nothing else for fixtures that are not used
afterAll(async ({}, { file }) => {
  const root = keptFolder();
  await cleanUp({ failed: hasFailed(file), folder: root && path.join(root, file.name) });
}, CLEANUP_MS);

function hasFailed(task: RunnerTask): boolean {
  return task.result?.state === 'fail' || (task.type === 'suite' && task.tasks.some(hasFailed));
}
