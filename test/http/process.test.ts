import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { COMPILE_CACHE } from '../../dev/node-process.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freePort, freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';

// The host process, as `npm run host` starts it.

interface HostProcess {
  child: ChildProcess;
  lines: { msg: string; level: number; url?: string; address?: string }[];
  exited: Promise<number | null>;
}

const started: HostProcess[] = [];
afterEach(async () => {
  for (const { child, exited } of started.splice(0)) {
    if (child.exitCode === null) child.kill('SIGKILL');
    await exited;
  }
});

function startProcess(env: Record<string, string>): HostProcess {
  const child = spawn(process.execPath, ['host/main.ts'], {
    env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: COMPILE_CACHE, PERDURE_DIR: dir, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: HostProcess['lines'] = [];
  createInterface({ input: child.stdout }).on('line', (line) => void lines.push(JSON.parse(line) as (typeof lines)[0]));
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const host = { child, lines, exited };
  started.push(host);
  return host;
}

function untilSaid(host: HostProcess, msg: RegExp | string) {
  return eventually(() => {
    const line = host.lines.find((each) => (typeof msg === 'string' ? each.msg === msg : msg.test(each.msg)));
    if (!line) throw new Error(`not logged yet: ${msg}; logged: ${host.lines.map((each) => each.msg).join(', ')}`);
    return line;
  });
}

const dir = scratchDir();
let databaseUrl: string;
let temporal: { TEMPORAL_ADDRESS: string; TEMPORAL_NAMESPACE: string };
beforeAll(async () => {
  databaseUrl = await freshDatabase();
  const { address, namespace } = await freshNamespace();
  temporal = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
});

describe('the process of the host', () => {
  it('H1 treats empty settings as unset, logs its address, becomes ready, and shuts down gracefully with an open stream', async () => {
    const empty = { OPENAI_API_KEY: '', OPENAI_BASE_URL: '', ANTHROPIC_BASE_URL: '', PERDURE_JWT_SECRET: '' };
    const host = startProcess({ DATABASE_URL: databaseUrl, ...temporal, ...empty });
    const { url } = await untilSaid(host, 'ready');
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ ready: true, postgres: true, temporal: true });
    const opened = await fetch(`${url}/api/sessions`, { method: 'POST' });
    const cookie = opened.headers.get('set-cookie')!.split(';')[0]!;
    const { session } = (await opened.json()) as { session: { session_id: string } };
    const events = await fetch(`${url}/api/sessions/${session.session_id}/events`, { headers: { cookie } });
    const cut = events.text().catch((error: unknown) => error);
    host.child.kill('SIGTERM');
    expect(await host.exited).toBe(0);
    expect(await cut).toBeInstanceOf(Error);
    expect(host.lines.map((line) => line.msg)).toEqual(expect.arrayContaining(['stopping', 'stopped']));
  });

  it('H1 retries while Postgres and Temporal are down, and logs their addresses', async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const host = startProcess({ DATABASE_URL: `postgres://u:p@${address}/none`, TEMPORAL_ADDRESS: address });
    const { url } = await untilSaid(host, 'ready');
    expect(await untilSaid(host, `postgres cannot be reached at ${address}`)).toMatchObject({ address });
    await untilSaid(host, `temporal cannot be reached at ${address}`);
    const readiness = await fetch(`${url}/readyz`);
    expect([readiness.status, await readiness.json()]).toEqual([
      503,
      { ready: false, postgres: false, temporal: false },
    ]);
    const answer = await fetch(`${url}/api/sessions`);
    expect(await answer.json()).toMatchObject({ code: 'Unavailable', status: 503 });
  });

  it('Q3 does not start with an empty cookie key, and says what to do', async () => {
    const own = path.join(dir, 'empty-key');
    await mkdir(own);
    await writeFile(path.join(own, 'cookie.key'), '');
    const host = startProcess({ DATABASE_URL: databaseUrl, ...temporal, PERDURE_DIR: own });
    expect(await host.exited).toBe(1);
    expect(host.lines.at(-1)?.msg).toMatch(/cookie\.key: expected a key of 32 bytes.*delete the file/);
  });

  it('H3 does not listen beyond loopback without token settings', async () => {
    const host = startProcess({ DATABASE_URL: databaseUrl, PERDURE_HOST: '0.0.0.0', ...temporal });
    expect(await host.exited).toBe(1);
    expect(host.lines.at(-1)?.msg).toMatch(/PERDURE_HOST: expected a loopback address.*PERDURE_JWT_SECRET/);
    const allowed = startProcess({
      DATABASE_URL: databaseUrl,
      PERDURE_HOST: '0.0.0.0',
      PERDURE_JWT_SECRET: 'a secret of at least thirty-two bytes',
      ...temporal,
    });
    const { url } = await untilSaid(allowed, 'ready');
    const answer = await fetch(`${url}/api/sessions`, { headers: { 'x-perdure-user': 'ada' } });
    expect(await answer.json()).toMatchObject({ code: 'Unauthorized', status: 401 });
  });

  it('H9 knows the models of PERDURE_PROVIDERS', async () => {
    const providers = path.join(dir, 'providers.mjs');
    await writeFile(
      providers,
      `import { createModels } from 'perdure';
       export default { acme: () => createModels({}).resolve('rehearsal/site-builder').model };`,
    );
    const own = { DATABASE_URL: databaseUrl, ...temporal, PERDURE_PROVIDERS: providers };
    const host = startProcess({ ...own, PERDURE_MODEL: 'acme/one' });
    const { url } = await untilSaid(host, 'ready');
    const open = async (model: string) => {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}/api/sessions`, { method: 'POST', headers, body: JSON.stringify({ model }) });
      return [answer.status, ((await answer.json()) as { detail?: string }).detail];
    };
    expect(await open('acme/two')).toEqual([201, undefined]);
    expect(await open('other/two')).toEqual([
      422,
      expect.stringContaining('expected a configured model (acme/*, rehearsal/'),
    ]);
  });

  it('H9 does not start with a default model that cannot be resolved', async () => {
    const host = startProcess({ DATABASE_URL: databaseUrl, ...temporal, PERDURE_MODEL: 'acme/one' });
    expect(await host.exited).toBe(1);
    expect(host.lines.at(-1)?.msg).toMatch(/PERDURE_MODEL.*"acme\/one" is not configured; configured: rehearsal/);
  });

  it('H1 names a missing setting', async () => {
    const host = startProcess({ PERDURE_LOG_LEVEL: 'info' });
    expect(await host.exited).toBe(1);
    expect(host.lines.at(-1)?.msg).toContain('DATABASE_URL: expected a URL');
  });
});
