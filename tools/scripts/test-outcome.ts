import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Reporter, SerializedError, TestModule, TestSpecification, Vitest } from 'vitest/node';

/** What is wrong with a file: the name of the test, or none if no single test is to blame, and the first message. */
export interface Problem {
  file: string;
  test?: string;
  message: string;
}

/** How many tests of a file passed, and how many were skipped. Those that failed are problems. */
export interface Counts {
  passed: number;
  skipped: number;
}

/** How a run of Vitest ended. */
export interface Outcome {
  /** By file, relative to the root: each that Vitest chose, also if it did not start. */
  counts: Record<string, Counts>;
  /** Every failed test, failed hook, unfinished file and unhandled error that belongs to a file. */
  problems: Problem[];
  /** Unhandled errors that belong to no file. */
  elsewhere: string[];
}

/** A reporter of Vitest that writes the {@link Outcome} as JSON to the file that TEST_OUTCOME names. */
export default class OutcomeReporter implements Reporter {
  #root = '';
  readonly #chosen = new Set<string>();

  onInit({ config }: Vitest): void {
    this.#root = config.root;
  }

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    for (const { moduleId } of specifications) this.#chosen.add(moduleId);
  }

  onTestRunEnd(testModules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const modules = new Map(testModules.map((module) => [module.moduleId, module]));
    const counts = Object.fromEntries([...this.#chosen].map((id) => [this.#relative(id), countsOf(modules.get(id))]));
    const outcome: Outcome = { counts, ...this.#wrong(modules, errors) };
    writeFileSync(process.env['TEST_OUTCOME']!, JSON.stringify(outcome));
  }

  #wrong(
    modules: Map<string, TestModule>,
    errors: readonly (SerializedError & { VITEST_TEST_PATH?: string })[],
  ): Pick<Outcome, 'problems' | 'elsewhere'> {
    const problems: Problem[] = [];
    const elsewhere: string[] = [];
    for (const error of errors) {
      const message = `unhandled: ${wordsOf(error)}`;
      if (error.VITEST_TEST_PATH === undefined) elsewhere.push(message);
      else problems.push({ file: this.#relative(error.VITEST_TEST_PATH), message });
    }
    // If none ran, it is no file's fault: the global setup failed.
    const unfinished = modules.size === 0 ? [] : [...this.#chosen].filter((id) => !isOver(modules.get(id)));
    for (const id of unfinished) {
      problems.push({ file: this.#relative(id), message: ['did not finish', ...elsewhere].join(': ') });
    }
    for (const module of modules.values()) problems.push(...problemsOf(module));
    // If a process of tests dies, its error names no file; it belongs to the one that did not finish.
    return { problems, elsewhere: unfinished.length > 0 ? [] : elsewhere };
  }

  #relative(id: string): string {
    return path.relative(this.#root, id);
  }
}

function isOver(module: TestModule | undefined): boolean {
  return module !== undefined && module.state() !== 'pending' && module.state() !== 'queued';
}

function problemsOf(module: TestModule): Problem[] {
  const file = module.relativeModuleId;
  const problems: Problem[] = module.errors().map((error) => ({ file, message: wordsOf(error) }));
  for (const suite of module.children.allSuites()) {
    problems.push(...suite.errors().map((error) => ({ file, test: suite.fullName, message: wordsOf(error) })));
  }
  for (const test of module.children.allTests('failed')) {
    const [error] = test.result().errors ?? [];
    problems.push({ file, test: test.fullName, message: error === undefined ? 'failed' : wordsOf(error) });
  }
  return problems.length > 0 || module.ok() ? problems : [{ file, message: 'failed' }];
}

function countsOf(module: TestModule | undefined): Counts {
  const count = (state: keyof Counts) => Array.from(module?.children.allTests(state) ?? []).length;
  return { passed: count('passed'), skipped: count('skipped') };
}

function wordsOf({ message, cause }: SerializedError): string {
  const texts = cause instanceof Error ? [message, cause.message] : [message];
  return texts.map((text) => text.split('\n', 1)[0]).join(' ');
}
