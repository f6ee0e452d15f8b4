import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { freePort, isPortFree } from '../../dev/ports.ts';
import { findTemporalCli } from '../../dev/temporal-cli.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { expectLeastOfThree } from '../../tools/test-kit/least-of-three.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { temporalCli } from '../../tools/test-kit/shared-caches.ts';

// Tests starting and stopping, so worker and host are minimal programs.
const WORKER = `
console.log(JSON.stringify({ level: 30, msg: 'ready' }));
const timer = setInterval(() => {}, 1000);
process.on('SIGTERM', () => clearInterval(timer));
`;
const HOST = `
import { createServer } from 'node:http';
const server = createServer((request, response) => {
  if (request.url === '/die') process.exit(3);
  response.end(JSON.stringify({ database: process.env.DATABASE_URL, temporal: process.env.TEMPORAL_ADDRESS }));
}).listen(Number(process.env.PORT), '127.0.0.1', () => console.log(JSON.stringify({ level: 30, msg: 'ready' })));
process.on('SIGTERM', () => { server.close(); server.closeAllConnections(); });
`;

let dir: string;
/** PERDURE_DIR of what is started. */
let dataDir: string;
const started: ChildProcess[] = [];

beforeAll(async () => {
  dir = scratchDir();
  await mkdir(dir, { recursive: true });
  await writeFile(path.join(dir, 'worker.ts'), WORKER);
  await writeFile(path.join(dir, 'host.ts'), HOST);
  const entries = { worker: path.join(dir, 'worker.ts'), host: path.join(dir, 'host.ts') };
  await writeFile(
    path.join(dir, 'start.ts'),
    `import { runInTerminal } from ${JSON.stringify(new URL('../../dev/terminal.ts', import.meta.url).href)};
     await runInTerminal(process.env, ${JSON.stringify(entries)});`,
  );
});

/** Kills what was started, and waits until no process of it is left. */
async function killAll(): Promise<void> {
  for (const child of started.splice(0)) child.kill('SIGKILL');
  await eventually(() => expect(processes()).toEqual([]));
}

/** Command lines of the live processes that belong to this file: all of them name its folder. */
function processes(): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      return command.includes(dir) ? [command] : [];
    } catch {
      return [];
    }
  });
}

/** `npm start` with the stand-ins; what it prints grows in `output`. */
function start(env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [path.join(dir, 'start.ts')], {
    env: { ...environment(), PERDURE_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  const run = { child, output: '', exited: once(child, 'exit') as Promise<[number | null]> };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (run.output += chunk.toString()));
  return run;
}

/** The environment without settings that replace an embedded part, and with an existing Temporal CLI. */
function environment(): NodeJS.ProcessEnv {
  const { DATABASE_URL: _d, TEMPORAL_ADDRESS: _t, PORT: _p, ...rest } = process.env;
  return { ...rest, ...temporalCli() };
}

async function addressesOf(run: ReturnType<typeof start>) {
  await eventually(() => expect(run.output).toContain('Ctrl-C stops all of it'), { timeout: 60_000 });
  const find = (name: string) => new RegExp(`^  ${name} +(\\S+)`, 'm').exec(run.output)?.[1] ?? '';
  return { page: find('Chat page'), ui: find('Temporal UI'), postgres: find('Postgres') };
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const password = (await readFile(path.join(dataDir, 'postgres', 'password'), 'utf8')).trim();
  const withPassword = new URL(url);
  withPassword.password = password;
  const db = new pg.Client({ connectionString: withPassword.href });
  await db.connect();
  try {
    return (await db.query(sql)).rows as unknown[];
  } finally {
    await db.end();
  }
}

/** The next start finds no data. */
function freshData(): void {
  dataDir = path.join(dir, randomUUID());
}

describe('npm start', () => {
  beforeEach(freshData);
  afterEach(killAll);

  it('H1 starts everything, stops cleanly, leaves no process, and keeps all data for the next start', async () => {
    const first = start();
    const { page, ui, postgres } = await addressesOf(first);
    expect(await (await fetch(page)).json()).toEqual({
      database: expect.stringContaining('postgres://perdure:'),
      temporal: expect.stringMatching(/^127\.0\.0\.1:/),
    });
    expect((await fetch(ui)).status).toBe(200);
    expect(await query(postgres, 'SELECT count(*)::int FROM sessions')).toEqual([{ count: 0 }]);
    await query(postgres, 'CREATE TABLE kept AS SELECT 1 AS one');
    first.child.kill('SIGTERM');
    expect((await first.exited)[0]).toBe(0);
    await eventually(() => expect(processes()).toEqual([]));

    const second = start();
    expect(await query((await addressesOf(second)).postgres, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);
  });

  it('H1 starts at once after it was killed, on the same given port, and leaves no process behind', async () => {
    const PORT = await freePort();
    const first = start({ PORT: String(PORT) });
    const { page } = await addressesOf(first);
    expect(new URL(page).port).toBe(String(PORT));
    first.child.kill('SIGKILL');
    const second = start({ PORT: String(PORT) });
    expect((await addressesOf(second)).page).toBe(page);
    expect((await fetch(page)).status).toBe(200);
    second.child.kill('SIGKILL');
    await eventually(() => expect(processes()).toEqual([]));
    expect(await isPortFree(PORT)).toBe(true);
  });

  it('H1 takes any free port if PORT is 0, and prints which', async () => {
    const { page } = await addressesOf(start({ PORT: '0' }));
    expect(Number(new URL(page).port)).toBeGreaterThan(0);
    expect((await fetch(page)).status).toBe(200);
  });

  it('H1 names the settings that its Temporal server lacks', async () => {
    const cli = await findTemporalCli(
      parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] }).dir,
      environment(),
      () => {},
    );
    const without = path.join(dir, 'temporal-without-a-setting');
    const more = 'if [ "$1" = server ]; then set -- "$@" --dynamic-config-value history.maxInFlightUpdates=10; fi';
    await writeFile(without, `#!/bin/sh\n${more}\nexec '${cli}' "$@"\n`, { mode: 0o755 });
    const run = start({ TEMPORAL_CLI_PATH: without });
    const line = /^temporal +the Temporal server lacks the dynamic setting (\S+): .*; see docs\/operations\.md/m;
    await eventually(() => expect(line.exec(run.output)?.[1]).toBe('history.maxInFlightUpdates'), { timeout: 60_000 });
  });

  it('H1 refuses a configured port that is taken, and names PORT', async () => {
    const port = await freePort();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    const run = start({ PORT: String(port) });
    expect((await run.exited)[0]).toBe(1);
    expect(run.output).toContain(`PORT is ${port}, which is taken`);
    expect(processes()).toEqual([]);
    squatter.close();
  });

  it('H1 names the address that it cannot reach, retries, and can be stopped meanwhile', async () => {
    const run = start({ DATABASE_URL: 'postgres://someone:hunter22@127.0.0.1:1/db' });
    await eventually(() => expect(run.output).toMatch(/postgres:\/\/someone@127\.0\.0\.1:1\/db: .*trying again/));
    expect(run.output).not.toContain('hunter22');
    run.child.kill('SIGINT');
    expect((await run.exited)[0]).toBe(0);
  });

  it.each([
    ['its servers start', {}, /./],
    ['it waits for Postgres', { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/db' }, /trying again/],
  ])('H1 ends within a second of SIGTERM while %s', async (_state, env, says) => {
    await expectLeastOfThree('from SIGTERM to the exit', 1_000, async () => {
      freshData();
      const run = start(env);
      await eventually(() => expect(run.output).toMatch(says));
      const at = performance.now();
      run.child.kill('SIGTERM');
      expect((await run.exited)[0]).toBe(0);
      return performance.now() - at;
    });
  });
});

describe('a running npm start', () => {
  let run: ReturnType<typeof start>;
  let page: string;
  beforeAll(async () => {
    freshData();
    const squatter = createServer();
    // Another process may have taken it already, which is as good.
    await new Promise<void>((resolve) => squatter.once('error', () => resolve()).listen(8787, '127.0.0.1', resolve));
    run = start();
    ({ page } = await addressesOf(run));
    squatter.close();
  });
  afterAll(killAll);

  it('H1 uses the next port if the default is taken, and reports it', () => {
    expect(run.output).toMatch(/port 8787 is taken, using \d+/);
    expect(Number(new URL(page).port)).toBeGreaterThan(8787);
  });

  it('H1 refuses to run twice in one folder', async () => {
    const second = start();
    expect((await second.exited)[0]).toBe(1);
    expect(second.output).toMatch(/worker is already running on .*PERDURE_DIR/);
  });

  it('H1 restarts a host that died and reports it', async () => {
    await fetch(`${page}die`).catch(() => {});
    await eventually(() => expect(run.output).toMatch(/host ended \(exit code 3\)[\s\S]*host is back/));
    expect((await fetch(page)).status).toBe(200);
  });
});
