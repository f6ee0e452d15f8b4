// `npm test`: runs Vitest with the arguments that it is given. Without any, files with failures or unhandled errors run once
// more when all others are over: alone, one at a time, with servers of their own. What passes then is unstable: the run
// passes, and says so in its last lines and in .perdure/test-report.json. A file that fails twice, and more than ten such
// files, fail the run.
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { execa } from 'execa';
import { measureSlowness } from './slowness.ts';
import type { Outcome, Problem } from './test-outcome.ts';

const MOST_SECOND_LOOKS = 10;
const VITEST = path.join(import.meta.dirname, '..', '..', 'node_modules', 'vitest', 'vitest.mjs');
const REPORTERS = ['--reporter=default', `--reporter=${path.join(import.meta.dirname, 'test-outcome.ts')}`];

const args = process.argv.slice(2);
const started = performance.now();
const slowness = (process.env['TEST_SLOWNESS'] ??= String(await measureSlowness()));
console.log(`time limits of tests × ${slowness}`);
const scratch = await mkdtemp(path.join(tmpdir(), 'perdure-test-outcome-'));
const first = await look(args);
const suspects = [...new Set(first.problems.map((problem) => problem.file))];
const unstable: Problem[] = [];
const failures: Problem[] = [];
const fatal = [...first.fatal];

if (args.length === 0 && suspects.length > MOST_SECOND_LOOKS) {
  fatal.push(`${suspects.length} files failed; at most ${MOST_SECOND_LOOKS} get a second look`);
}
if (args.length > 0 || fatal.length > 0) failures.push(...first.problems);
else for (const file of suspects) await lookAgain(file);
await rm(scratch, { recursive: true });
await conclude();

/**
 * Runs Vitest in a process of its own, which prints as usual. `fatal`: why it failed as a whole.
 * @param kept where failed files keep logs and databases (tools/test-kit/failed-file.ts)
 */
async function look(asked: string[], kept?: string): Promise<Outcome & { fatal: string[] }> {
  const file = path.join(scratch, 'outcome.json');
  await rm(file, { force: true });
  const { exitCode, signal } = await execa(process.execPath, [VITEST, 'run', ...asked, ...REPORTERS], {
    stdio: 'inherit',
    reject: false,
    env: { TEST_OUTCOME: file, TEST_KEPT: kept },
  });
  let outcome: Outcome = { counts: {}, problems: [], elsewhere: [] };
  try {
    outcome = JSON.parse(await readFile(file, 'utf8')) as Outcome;
  } catch {
    // It ended before a test ran, or while tests ran.
  }
  const { counts, problems, elsewhere } = outcome;
  const reasons = [...elsewhere];
  if (problems.length === 0 && !Object.values(counts).some(({ passed }) => passed > 0)) reasons.push('no test ran');
  if (problems.length + reasons.length === 0 && exitCode !== 0) reasons.push(`Vitest ended with ${signal ?? exitCode}`);
  return { ...outcome, fatal: reasons };
}

/** Runs one file of the first run again, alone. What it finds replaces what the first run found of the file. */
async function lookAgain(file: string): Promise<void> {
  console.log(`\nsecond look: ${file}`);
  const kept = path.join('.perdure', 'failed');
  // What the first look has kept of the file is enough, and a second look removes nothing.
  const folder = existsSync(path.join(kept, file)) ? '' : path.join(kept, 'second-look', file);
  const second = await look([path.resolve(file), '--maxWorkers=1'], folder);
  Object.assign(first.counts, second.counts);
  failures.push(...second.problems);
  fatal.push(...second.fatal.map((reason) => `${file}: ${reason}`));
  if (second.problems.length + second.fatal.length > 0) return;
  unstable.push(...first.problems.filter((problem) => problem.file === file));
}

/** Writes the report, and prints what was unstable and what failed as the last lines. */
async function conclude(): Promise<void> {
  const sum = (of: 'passed' | 'skipped') =>
    Object.values(first.counts).reduce((total, counts) => total + counts[of], 0);
  const failed = failures.length + fatal.length;
  const seconds = Math.round((performance.now() - started) / 1000);
  const counts = { passed: sum('passed'), failed, skipped: sum('skipped') };
  const report = { ...counts, seconds, slowness: Number(slowness), unstable, failures, fatal };
  await mkdir('.perdure', { recursive: true });
  await writeFile('.perdure/test-report.json', `${JSON.stringify(report, null, 2)}\n`);
  const line = ({ file, test, message }: Problem) => `${file}${test === undefined ? '' : ` › ${test}`}: ${message}`;
  if (failed + unstable.length > 0) console.log('');
  for (const problem of unstable) console.log(`unstable: ${line(problem)}`);
  for (const problem of failures) console.log(`failed: ${line(problem)}`);
  for (const reason of fatal) console.log(`failed: ${reason}`);
  process.exitCode = failed > 0 ? 1 : 0;
}
