import path from 'node:path';
import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take half a minute or more, or folders with such files: started late, one alone would delay the end of a run. */
const LONGEST = [
  'test/campaign/',
  'test/streams/',
  'test/http/schemathesis',
  'test/faults/',
  'test/deploys/',
  'test/http/',
];
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

/** Files that show a promised second: they run one at a time when the others are over. */
const ALONE = ['test/dev/start.test.ts', 'test/operations/programs.test.ts', 'test/package/package.test.ts'];

/** A project whose tests use the run's Postgres and Temporal; all such projects share one of each. */
function withServers(
  name: string,
  include: string[],
  {
    exclude = [],
    ...more
  }: { exclude?: string[] } & Pick<
    TestProjectInlineConfiguration['test'] & {},
    'isolate' | 'maxWorkers' | 'sequence'
  > = {},
): TestProjectInlineConfiguration {
  const globalSetup = ['test/global-setup.ts'];
  const test = { name, include, exclude: [...NOT_OURS, ...exclude], globalSetup, isolate: false, ...more };
  return { extends: true, test };
}

const source = (file: string) => path.join(import.meta.dirname, file);

export default defineConfig({
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
    // What passes does not pay for a long limit: while other files have both cores, starting a system may take half a minute.
    testTimeout: 120_000,
    hookTimeout: 90_000,
    // As patient as eventually() of tools/test-kit: a second is not enough while other files have both cores.
    expect: { poll: { timeout: 25_000 } },
    // Tests wait more than they compute.
    maxWorkers: 3,
    // Fewer garbage collections: saves up to a tenth of the CPU.
    execArgv: ['--min-semi-space-size=64', '--max-semi-space-size=128'],
    // Files share processes: starting one and loading its modules takes three seconds while both cores are busy.
    isolate: false,
    setupFiles: ['test/setup.ts'],
    sequence: { sequencer: LongestFirst },
    projects: [
      // Pure rules, beside their code. Needs no server and starts none.
      {
        extends: true,
        test: { name: 'unit', include: ['**/*.test.{ts,tsx}'], exclude: [...NOT_OURS, 'test/**'] },
      },
      withServers('rows', ['test/rows/**/*.test.ts']),
      withServers('browser', ['test/browser/**/*.test.ts']),
      // They change the priority of their process.
      withServers('campaign', ['test/campaign/**/*.test.ts'], { isolate: true }),
      withServers('system', ['test/**/*.test.ts'], { exclude: ['test/{rows,browser,campaign}/**', ...ALONE] }),
      withServers('alone', ALONE, { maxWorkers: 1, sequence: { groupOrder: 1 } }),
    ],
  },
});
