// For `npm run campaign`: one file at a time, each in a process of its own.
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { common, withServers } from '../../vitest.config.ts';

/** Files of the gate that measure what a clause promises, or are run with more chances here. */
const ALSO = [
  'test/{dev/start,package/package,deploys/two-installations}.test.ts',
  'test/operations/programs.test.ts',
  'test/http/{rendezvous,tokens,without-temporal}.test.ts',
  'test/faults/races-phase.test.ts',
];

export default defineConfig({
  ...common,
  root: path.join(import.meta.dirname, '..', '..'),
  test: {
    ...common.test,
    maxWorkers: 1,
    env: { TEST_PROMISES: 'kept', RACES: process.env['RACES'] ?? '150' },
    projects: [withServers('campaign', ['test/campaign/**/*.test.ts', ...ALSO], { isolate: true })],
  },
});
