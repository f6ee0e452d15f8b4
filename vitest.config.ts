import path from 'node:path';
import { configDefaults, defineConfig, type TestProjectInlineConfiguration, type ViteUserConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { patient } from './tools/test-kit/patient.ts';

/** Files that take half a minute or more, or folders with such files: started late, one alone would delay the end of a run. */
const LONGEST = ['test/package/', 'test/faults/', 'test/browser/', 'test/deploys/', 'test/dev/', 'test/http/'];
/** Moves the clock of its process, which it therefore shares with no other file. */
const OWN_CLOCK = 'test/faults/outages.test.ts';
const NOT_OURS = [...configDefaults.exclude, 'dist/**', '.perdure/**', 'dev/init/template/**', 'test/package/init/**'];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- a method of the sequencer, which returns a new array
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}

function rank({ moduleId }: TestSpecification): number {
  const index = LONGEST.findIndex((start) => moduleId.includes(`/${start}`));
  return index < 0 ? LONGEST.length : index;
}

/** A project whose tests use the run's Postgres and Temporal; all such projects share one of each. */
export function withServers(
  name: string,
  include: string[],
  { exclude = [], isolate = false }: { exclude?: string[]; isolate?: boolean } = {},
): TestProjectInlineConfiguration {
  const globalSetup = ['test/global-setup.ts'];
  const test = { name, include, exclude: [...NOT_OURS, ...exclude], globalSetup, isolate };
  return { extends: true, test };
}

const source = (file: string) => path.join(import.meta.dirname, file);

const HANGS_MS = patient(120_000);

/** What `npm test` and `npm run campaign` have in common. */
export const common = {
  // Examples of the documentation import the package by its name, also where dist/ has not been built.
  resolve: {
    alias: [
      { find: /^perdure$/, replacement: source('agent/index.ts') },
      { find: /^perdure\/domain$/, replacement: source('domain/index.ts') },
      { find: /^perdure\/state$/, replacement: source('client/state/index.ts') },
      { find: /^perdure\/adk$/, replacement: source('client/state/adk.ts') },
    ],
  },
  test: {
    // Limits are for what hangs: while other files have both cores, starting a system may take half a minute.
    testTimeout: HANGS_MS,
    hookTimeout: HANGS_MS,
    // As patient as eventually() of tools/test-kit.
    expect: { poll: { timeout: patient(30_000) } },
    // Fewer garbage collections: saves up to a tenth of the CPU.
    execArgv: ['--min-semi-space-size=64', '--max-semi-space-size=128'],
    // Files share processes: starting one and loading its modules takes three seconds while both cores are busy.
    isolate: false,
    setupFiles: ['test/setup.ts'],
  },
} satisfies ViteUserConfig;

export default defineConfig({
  ...common,
  test: {
    ...common.test,
    // Tests wait more than they compute.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    projects: [
      // Pure rules, beside their code. Needs no server and starts none.
      {
        extends: true,
        test: { name: 'unit', include: ['**/*.test.{ts,tsx}'], exclude: [...NOT_OURS, 'test/**'] },
      },
      withServers('rows', ['test/rows/**/*.test.ts']),
      withServers('browser', ['test/browser/**/*.test.ts']),
      withServers('system', ['test/**/*.test.ts'], { exclude: ['test/{rows,browser,campaign}/**', OWN_CLOCK] }),
      withServers('clock', [OWN_CLOCK], { isolate: true }),
    ],
  },
});
