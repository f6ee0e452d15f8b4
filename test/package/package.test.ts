// The result of `npm pack`, installed into a project outside of this repository.
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { startNodeProcess } from '../../tools/dev/node-process.ts';
import { freshDatabase, freshNamespace, freePort } from '../../tools/test-kit/servers.ts';

const root = path.join(import.meta.dirname, '..', '..');
const modules = path.join(root, 'node_modules');
const project = scratchDir();
const installed = path.join(project, 'node_modules', 'perdure');
const run = promisify(execFile);

/** Lines of TypeScript's output about the project. */
let errors: string[];
beforeAll(async () => {
  await cp(path.join(import.meta.dirname, 'project'), project, { recursive: true });
  await mkdir(installed, { recursive: true });
  await run('npm', ['pack', '--silent', '--pack-destination', project], { cwd: root });
  const tarball = (await readdir(project)).find((name) => name.endsWith('.tgz'))!;
  await run('tar', ['-xzf', path.join(project, tarball), '-C', installed, '--strip-components=1']);
  // Only the declared dependencies, as npm would install them.
  const { dependencies } = JSON.parse(await readFile(path.join(installed, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  for (const name of [...Object.keys(dependencies), '@types/node']) {
    await mkdir(path.dirname(path.join(project, 'node_modules', name)), { recursive: true });
    await symlink(path.join(modules, name), path.join(project, 'node_modules', name));
  }
  errors = await compile();
}, 180_000);

/** Type-checks the project, also the declarations that it uses, and compiles it to JavaScript. Returns TypeScript's output. */
async function compile(): Promise<string[]> {
  const args = [
    path.join(modules, 'typescript', 'bin', 'tsc'),
    '-p',
    project,
    '--pretty',
    'false',
    '--skipLibCheck',
    'false',
  ];
  const { stdout } = await run(process.execPath, args, { cwd: project }).catch(
    (error: unknown) => error as { stdout: string },
  );
  return stdout.split('\n');
}

describe('the packed tarball', () => {
  it('H5 contains JavaScript, declarations, SQL and the page, no sources and no tests', async () => {
    const files = await readdir(path.join(installed, 'dist'), { recursive: true });
    expect(files).toEqual(
      expect.arrayContaining([
        'agent/index.js',
        'agent/index.d.ts',
        'client/index.js',
        'domain/index.js',
        'examples/site-builder/agent.js',
        'host/index.js',
        'migrations/0001_tables.sql',
        'store/sql/sessions.sql',
        'swagger-ui/LICENSE',
        'swagger-ui/swagger-ui-bundle.js',
        'web/dist/index.html',
        'worker/index.js',
        'workflows/bundle.js',
      ]),
    );
    expect(files.filter((file) => /\.test\.|(?<!\.d)\.tsx?$/.test(file))).toEqual([]);
    expect(await readdir(installed)).toEqual(['LICENSE', 'README.md', 'dist', 'package.json']);
  });

  it('H5 type-checks in another project, including its own declarations', () => {
    // A message's further lines are indented. Declarations of other packages are not ours to mend.
    expect(errors.filter((line) => !/^(?:\s|$|node_modules\/(?!perdure\/))/.test(line))).toEqual([]);
  });

  it('H5 has programs: migrate, worker, and host with the chat page', { timeout: 60_000 }, async () => {
    const { address, namespace } = await freshNamespace();
    const port = await freePort();
    const env = {
      PATH: process.env['PATH'],
      DATABASE_URL: await freshDatabase({ empty: true }),
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      PERDURE_DIR: path.join(project, 'kept'),
      PORT: String(port),
    };
    const program = (name: string) => path.join(installed, 'dist', name, 'main.js');
    const start = (name: string) =>
      startNodeProcess({ name, entry: program(name), env, logDir: project, graceMs: 5_000, say: () => {} });
    const { stdout } = await run(process.execPath, [program('migrations')], { env });
    expect(stdout).toContain('the database is migrated');
    const started = await Promise.all([start('worker'), start('host')]);
    try {
      const page = await fetch(`http://127.0.0.1:${port}/`);
      expect(await page.text()).toMatch(/^<!doctype html>/i);
      const docs = await fetch(`http://127.0.0.1:${port}/docs/swagger-ui-bundle.js`);
      expect(await docs.text()).toContain('SwaggerUIBundle');
    } finally {
      await Promise.all(started.map((each) => each.stop()));
    }
    const ends = await Promise.all(started.map((each) => each.exited));
    expect(ends).toEqual([expect.objectContaining({ code: 0 }), expect.objectContaining({ code: 0 })]);
  });

  it('H5 works in plain Node: a run in memory, a worker, a client, a fetch handler', { timeout: 60_000 }, async () => {
    const [database, { address, namespace }] = [await freshDatabase({ empty: true }), await freshNamespace()];
    const { stdout } = await run(process.execPath, [path.join(project, 'out', 'main.js')], {
      cwd: project,
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: database,
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: namespace,
        PERDURE_DIR: path.join(project, 'kept'),
      },
    });
    const done = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown>;
    expect(done).toEqual({
      inMemory: expect.stringContaining('rehearsal'),
      overClient: { text: expect.stringContaining('rehearsal'), phase: 'chatting' },
      overHttp: { status: 404, code: 'SessionNotFound' },
      nextPhase: 'done',
    });
  });
});
