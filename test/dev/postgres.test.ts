import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { freePort, isPortFree } from '../../dev/ports.ts';
import { startPostgres, type RunningPostgres } from '../../dev/postgres.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

const running: RunningPostgres[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop();
});

async function start(dir: string, options: { log?: (line: string) => void } = {}): Promise<RunningPostgres> {
  const server = await startPostgres({ dir, ephemeral: true, ...options });
  running.push(server);
  return server;
}

async function query<T extends pg.QueryResultRow>(url: string, sql: string): Promise<T[]> {
  const db = new pg.Client({ connectionString: url });
  await db.connect();
  try {
    return (await db.query<T>(sql)).rows;
  } finally {
    await db.end();
  }
}

/** Lets a stopped process go on, unless it has ended. */
function goOn(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // It has ended.
  }
}

describe('embedded Postgres', () => {
  it('H1 keeps its data and password across restarts', async () => {
    const dir = scratchDir();
    const first = await start(dir);
    await query(first.url, "CREATE TABLE kept AS SELECT 'Grüße 🌍' AS word");
    await first.stop();
    expect(await isPortFree(first.port)).toBe(true);
    const second = await start(dir);
    expect(new URL(second.url).password).toBe(new URL(first.url).password);
    expect(await query(second.url, 'SELECT word FROM kept')).toEqual([{ word: 'Grüße 🌍' }]);
  });

  it('H1 is UTF-8, requires the password, and stores it readable for its owner only', async () => {
    const dir = scratchDir();
    const { url } = await start(dir);
    expect(await query(url, 'SHOW server_encoding')).toEqual([{ server_encoding: 'UTF8' }]);
    const wrong = new URL(url);
    wrong.password = 'guess';
    await expect(query(wrong.href, 'SELECT')).rejects.toMatchObject({ code: '28P01' });
    expect((await stat(path.join(dir, 'password'))).mode & 0o777).toBe(0o600);
  });

  it('H1 reports that its port is taken', async () => {
    const port = await freePort();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    await expect(startPostgres({ dir: scratchDir(), port })).rejects.toMatchObject({ code: 'PortTaken' });
    squatter.close();
  });

  it('H1 reports that a running Postgres uses the data', async () => {
    const dir = scratchDir();
    const { pid } = await start(dir);
    await expect(startPostgres({ dir })).rejects.toMatchObject({
      code: 'PostgresInUse',
      message: expect.stringContaining(`pid ${pid}`),
    });
  });

  it('H1 starts after a crash, even if another process has its pid now', async () => {
    const dir = scratchDir();
    const first = await start(dir);
    process.kill(first.pid, 'SIGKILL');
    await first.exited;
    await writeFile(
      path.join(dir, 'data', 'postmaster.pid'),
      `${process.pid}\n${dir}\n1\n5432\n\n127.0.0.1\n1 2\nready\n`,
    );
    const second = await start(dir);
    expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('H1 after a crash waits for the processes that the server has left', async () => {
    const dir = scratchDir();
    const first = await start(dir);
    await query(first.url, 'SET synchronous_commit = on; CREATE TABLE kept AS SELECT 1 AS one');
    const [left] = await query<{ pid: number }>(
      first.url,
      `SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'`,
    );
    process.kill(left!.pid, 'SIGSTOP');
    onTestFinished(() => goOn(left!.pid));
    process.kill(first.pid, 'SIGKILL');
    await first.exited;
    const lines: string[] = [];
    const second = start(dir, { log: (line) => lines.push(line) });
    second.catch(() => {});
    await Promise.race([
      second,
      eventually(() => expect(lines).toContainEqual(expect.stringMatching(/^waiting until the processes/))),
    ]);
    goOn(left!.pid);
    await second;
    expect(lines).toContainEqual(expect.stringMatching(/^waiting until the processes/));
    expect(await query((await second).url, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);
  });

  it('H1 starts at once after its parent was killed, with all committed data', async () => {
    const dir = scratchDir();
    const code = `
      import { startPostgres } from ${JSON.stringify(new URL('../../dev/postgres.ts', import.meta.url).href)};
      console.log((await startPostgres({ dir: ${JSON.stringify(dir)}, ephemeral: true })).url);
      setInterval(() => {}, 1000);
    `;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [url] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS one');
    parent.kill('SIGKILL');
    const second = await start(dir);
    expect(await query(second.url, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);
    await eventually(async () => expect(await isPortFree(Number(new URL(url).port))).toBe(true));
  });

  it('H1 refuses a folder with other contents', async () => {
    const dir = scratchDir();
    await (await start(dir)).stop();
    await rm(path.join(dir, 'data', 'PG_VERSION'));
    await expect(startPostgres({ dir })).rejects.toMatchObject({ code: 'PostgresFailed' });
  });
});
