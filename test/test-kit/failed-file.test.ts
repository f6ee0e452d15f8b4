// What a run of Vitest leaves, in a folder of its own, with servers of its own.
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import pg from 'pg';
import { expect, it } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const NODE_MODULES = path.join(ROOT, 'node_modules');
const HANGS_MS = patient(120_000);

/** The source of a file with a worker, a host and a session of the user ada, and what its test does. */
function withSession(test: string): string {
  return `import { beforeAll, expect, it } from 'vitest';
    import { processesOn } from '${ROOT}/tools/test-kit/processes.ts';
    import { startHost } from '${ROOT}/tools/test-kit/host.ts';
    import { startRuntime } from '${ROOT}/tools/test-kit/runtime.ts';
    let runtime;
    beforeAll(async () => {
      runtime = await startRuntime();
      const host = await startHost({ databaseUrl: runtime.databaseUrl, temporal: runtime.temporal });
      await host.as('ada').post('/api/sessions', { metadata: { title: 'kept' } });
    });
    it('looks', async () => { ${test} });`;
}

const FAILS = withSession(
  'await (await processesOn(runtime, runtime.model.url)).host(); expect(runtime.databaseUrl).toBe(1);',
);
const PASSES = withSession('expect(runtime.databaseUrl).toBeTypeOf("string");');

/** A repository with the tests' set-up and these files. */
async function repository(files: Record<string, string>) {
  const dir = scratchDir();
  const temporary = path.join(dir, 'tmp');
  await mkdir(temporary, { recursive: true });
  await symlink(NODE_MODULES, path.join(dir, 'node_modules'));
  const config = `export default { test: {
    include: ['*.test.ts'], maxWorkers: 1, isolate: false, hookTimeout: ${HANGS_MS}, testTimeout: ${HANGS_MS},
    setupFiles: ['${ROOT}/test/setup.ts'], globalSetup: ['${ROOT}/test/global-setup.ts'],
  } };`;
  for (const [name, text] of Object.entries({ 'vitest.config.mjs': config, ...files })) {
    await writeFile(path.join(dir, name), text);
  }
  // This file may be the second look at itself, whose folder is not for the runs that it starts.
  const env = { TMPDIR: temporary, PERDURE_DIR: path.resolve(parseConfig(process.env).dir), TEST_KEPT: undefined };
  const run = async (...names: string[]) => {
    const vitest = path.join(NODE_MODULES, 'vitest', 'vitest.mjs');
    const options = { cwd: dir, env, reject: false, all: true } as const;
    const { exitCode, all } = await execa(process.execPath, [vitest, 'run', ...names], options);
    return { exitCode, output: all };
  };
  return { dir, temporary, env, run };
}

/** What `npm run failed` prints for each file; it is stopped when they have been read. */
async function withKeptDatabases<T>(
  dir: string,
  env: NodeJS.ProcessEnv,
  use: (lines: string[]) => Promise<T>,
): Promise<T> {
  const script = path.join(ROOT, 'tools', 'scripts', 'failed.ts');
  const serving = execa(process.execPath, [script], { cwd: dir, env, reject: false });
  const lines: string[] = [];
  try {
    for await (const line of createInterface({ input: serving.stdout })) {
      if (line === 'Ctrl-C stops it') break;
      lines.push(line);
    }
    return await use(lines);
  } finally {
    serving.kill('SIGINT');
    expect((await serving).exitCode).toBe(0);
  }
}

it('H1 a failed file keeps its logs and its database until the next run, and a file that passes keeps nothing', async () => {
  const { dir, temporary, env, run } = await repository({ 'fails.test.ts': FAILS, 'passes.test.ts': PASSES });
  const kept = path.join(dir, '.perdure', 'failed');

  const failed = await run();
  expect(failed).toMatchObject({ exitCode: 1, output: expect.stringContaining('1 passed') as string });
  expect(failed.output).toMatch(/fails\.test\.ts used the database test_\w+: `npm run failed` starts its Postgres/);
  expect((await readdir(kept)).toSorted()).toEqual(['fails.test.ts', 'postgres', 'postgres.log', 'temporal.log']);
  expect((await readdir(path.join(kept, 'fails.test.ts'))).toSorted()).toEqual([
    'databases.txt',
    'host-1.log',
    'host.log',
    'worker.log',
  ]);
  expect(await readFile(path.join(kept, 'fails.test.ts', 'worker.log'), 'utf8')).toMatch(/^\{"level":/);
  expect(await readdir(temporary)).toEqual([]);

  await withKeptDatabases(dir, env, async (lines) => {
    const [, file, url] = /^(\S+): psql '(.+)'$/.exec(lines.at(-1)!)!;
    expect(file).toBe('fails.test.ts');
    const client = new pg.Client({ connectionString: url! });
    await client.connect();
    const { rows } = await client.query<{ user_id: string }>('SELECT user_id FROM sessions');
    const databases = await client.query(`SELECT FROM pg_database WHERE datname LIKE 'test\\_%'`);
    await client.end();
    expect(rows).toEqual([{ user_id: 'ada' }]);
    expect(databases.rowCount).toBe(1);
  });

  expect(await run('passes')).toMatchObject({ exitCode: 0 });
  expect(existsSync(kept)).toBe(false);
  expect(await readdir(temporary)).toEqual([]);
});
