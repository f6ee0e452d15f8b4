// What `npm test` makes of failures, in folders of test files that fail as they are told.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

const SCRIPT = path.join(import.meta.dirname, '..', '..', 'tools', 'scripts', 'test.ts');

/** Vitest's globals, so that the folder needs no package; a line in setups.txt for each start of a run. */
const BASE = {
  'vitest.config.js': `export default { test: { globals: true, globalSetup: ['setup.js'], maxWorkers: 3 } };`,
  'setup.js': `import { appendFileSync } from 'node:fs';
    export default () => appendFileSync(import.meta.dirname + '/setups.txt', 'started\\n');`,
};

/** The source of a file that runs \`first\` when it is run for the first time, and passes when it is run again. */
function atFirst(first: string): string {
  return `import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
    import { setTimeout as delay } from 'node:timers/promises';
    const mark = import.meta.filename + '.ran';
    const again = existsSync(mark);
    writeFileSync(mark, '');
    const log = (line) => again && appendFileSync(import.meta.dirname + '/log.txt', line + '\\n');
    log('begin');
    it('works', async () => { if (!again) { ${first} } });
    afterAll(() => log('end'));`;
}

interface Problem {
  file: string;
  test?: string;
  message: string;
}

/** Runs `npm test` as in a repository with these files. */
async function npmTest(files: Record<string, string>, args: string[] = []) {
  const dir = scratchDir();
  await mkdir(dir);
  for (const [name, text] of Object.entries({ ...BASE, ...files })) await writeFile(path.join(dir, name), text);
  const run = await execa(process.execPath, [SCRIPT, ...args], { cwd: dir, reject: false, all: true });
  const read = (name: string) => readFile(path.join(dir, name), 'utf8');
  const report = JSON.parse(await read('.perdure/test-report.json')) as {
    passed: number;
    failed: number;
    skipped: number;
    unstable: Problem[];
    failures: Problem[];
    fatal: string[];
  };
  return { exitCode: run.exitCode, lines: run.all.split('\n'), report, read };
}

const named = (problems: Problem[]) =>
  problems.map(({ file, test }) => (test === undefined ? file : `${file} › ${test}`));

describe('npm test', () => {
  it('H1 runs files that failed once more, alone, and reports what passes then as unstable', async () => {
    const { exitCode, lines, report, read } = await npmTest({
      'fails.test.js': atFirst(`expect(1, 'sum').toBe(2);`),
      'rejects.test.js': atFirst(`void Promise.reject(new Error('nobody waits')); await delay(50);`),
      'dies.test.js': atFirst(`process.kill(process.pid, 'SIGKILL');`),
      'good.test.js': `it('works', () => {}); it.skip('waits', () => {});`,
    });
    expect({ exitCode, ...report }).toMatchObject({ exitCode: 0, passed: 4, failed: 0, skipped: 1, failures: [] });
    expect(named(report.unstable).toSorted()).toStrictEqual([
      'dies.test.js',
      'fails.test.js › works',
      'rejects.test.js',
    ]);
    for (const { file, message } of report.unstable) {
      expect(lines.some((line) => line.startsWith(`unstable: ${file}`) && line.endsWith(message))).toBe(true);
    }
    expect(report.unstable.map(({ message }) => message).join('\n')).toMatch(/nobody waits/);
    // One at a time, each with servers of its own.
    expect(await read('log.txt')).toBe('begin\nend\n'.repeat(3));
    expect(await read('setups.txt')).toBe('started\n'.repeat(4));
  });

  it('H1 fails if a file fails twice, or cannot be loaded, and names it and its test', async () => {
    const { exitCode, lines, report } = await npmTest({
      'wrong.test.js': `describe('sums', () => { it('adds', () => expect(1).toBe(2)); });`,
      'hook.test.js': `afterAll(() => { throw new Error('not cleaned up'); }); it('works', () => {});`,
      'missing.test.js': `import './absent.js'; it('works', () => {});`,
      'unstable.test.js': atFirst(`throw new Error('once');`),
    });
    expect({ exitCode, ...report }).toMatchObject({ exitCode: 1, passed: 2, failed: 3, fatal: [] });
    expect(named(report.unstable)).toStrictEqual(['unstable.test.js › works']);
    expect(named(report.failures).toSorted()).toStrictEqual([
      'hook.test.js',
      'missing.test.js',
      'wrong.test.js › sums > adds',
    ]);
    expect(lines).toContainEqual(expect.stringMatching(/^failed: missing\.test\.js: .*absent\.js/));
    expect(lines).toContainEqual('failed: hook.test.js: not cleaned up');
  });

  it('H1 keeps what the second look at a file has used if the first look kept nothing, in a place of its own', async () => {
    const { read } = await npmTest({
      'setup.js': `import { appendFileSync } from 'node:fs';
        export default () => appendFileSync(import.meta.dirname + '/kept.txt', process.env.TEST_KEPT + '\\n');`,
      'kept.test.js': `import { mkdirSync } from 'node:fs';
        it('works', () => { mkdirSync('.perdure/failed/kept.test.js', { recursive: true }); throw new Error('always'); });`,
      'lost.test.js': `it('works', () => { throw new Error('always'); });`,
    });
    const [first, ...second] = (await read('kept.txt')).split('\n').slice(0, -1);
    expect(first).toBe('undefined');
    expect(second.toSorted()).toEqual(['', path.join('.perdure', 'failed', 'second-look', 'lost.test.js')]);
  });

  it('H1 looks at no file again if more than ten failed', async () => {
    const names = Array.from({ length: 11 }, (_, index) => `file-${index}.test.js`);
    const { exitCode, report, read } = await npmTest(
      Object.fromEntries(names.map((name) => [name, atFirst(`throw new Error('once');`)])),
    );
    expect({ exitCode, ...report }).toMatchObject({ exitCode: 1, passed: 0, failed: 12, unstable: [] });
    expect(report.fatal).toStrictEqual(['11 files failed; at most 10 get a second look']);
    expect(await read('setups.txt')).toBe('started\n');
  });

  it.each([
    [
      'the global setup fails',
      { 'setup.js': `throw new Error('no server');`, 'a.test.js': `it('works', () => {});` },
      [],
    ],
    ['it finds no file', { 'a.test.js': `it('works', () => {});` }, ['other']],
    ['no test has the name', { 'a.test.js': `it('works', () => {});` }, ['-t', 'absent']],
    ['an option is unknown', { 'a.test.js': `it('works', () => {});` }, ['--projct', 'unit']],
  ])('H1 fails if %s', async (_, files, args) => {
    const { exitCode, lines, report } = await npmTest(files, args);
    expect({ exitCode, ...report }).toMatchObject({ exitCode: 1, passed: 0, unstable: [] });
    expect(report.failed).toBeGreaterThan(0);
    expect(lines).toContainEqual('failed: no test ran');
    if ('setup.js' in files) expect(lines.join('\n')).toContain('no server');
  });
});
