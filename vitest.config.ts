import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** A minute, whatever the machine: begun last, the whole suite would wait for it alone. */
const LONGEST = 'test/campaign/chaos.test.ts';
/** Run when all others are over: how soon a command is answered in a deploy is nothing to share two cores for. */
const ALONE = 'test/deploys/rolling.test.ts';
const NOT_OURS = ['**/node_modules/**', 'dist/**', '.perdure/**'];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- the sequencer's, which makes an array of its own
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => Number(isLongest(other)) - Number(isLongest(one)));
  }
}

function isLongest({ moduleId }: TestSpecification): boolean {
  return moduleId.endsWith(LONGEST);
}

export default defineConfig({
  test: {
    globalSetup: ['test/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 30_000,
    // Tests wait for servers more than they compute.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // Their arrays are added to those above, and not put in their place.
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: ['**/*.test.ts', '**/*.test.tsx'],
          exclude: [...NOT_OURS, ALONE],
          sequence: { groupOrder: 0 },
        },
      },
      { extends: true, test: { name: 'alone', include: [ALONE], exclude: NOT_OURS, sequence: { groupOrder: 1 } } },
    ],
  },
});
