// Host and worker through PgBouncer in transaction mode, by which each transaction may be on another connection to Postgres.
import path from 'node:path';
import { execa } from 'execa';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { chunksOf, type TestCaller } from '../../tools/test-kit/host.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, startModelServer } from '../../tools/test-kit/model-server.ts';
import { pgBouncerVersion, startPgBouncer } from '../../tools/test-kit/pgbouncer.ts';
import { type Processes, processesOn } from '../../tools/test-kit/processes.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import type { SystemServers } from '../../tools/test-kit/system.ts';

const SESSIONS = 20;
/** Connections to Postgres, which those of host and worker share. */
const SHARED = 5;

const version = pgBouncerVersion();
if (version === undefined) {
  console.warn('test/campaign/pgbouncer: skipped, no pgbouncer on the PATH, and TEST_PGBOUNCER names none');
}
const [, minor = 0] = version ?? [];
const hasNames = minor >= 21;
const MODES: [name: string, settings: Record<string, number>, env: Record<string, string>][] = [
  ['that knows no prepared statements', hasNames ? { max_prepared_statements: 0 } : {}, {}],
];
if (hasNames) {
  const named = { max_prepared_statements: 200 };
  MODES.push(['that knows prepared statements', named, {}]);
  MODES.push(['that knows prepared statements, with names', named, { PERDURE_PREPARED_STATEMENTS: 'true' }]);
}

function build({ messages }: ChatRequest): ModelAction[] {
  const tools = messages.slice(messages.findLastIndex(({ role }) => role === 'user')).filter((m) => m.role === 'tool');
  if (tools.length === 0) return [callTool('call_1', 'build_and_deploy', { confirm_new_project: true })];
  if (tools.length === 1) return [callTool('call_1', 'todo_complete', { name: 'build' })];
  return [say('It '), say('is '), say('done.')];
}

let servers: SystemServers;
let modelUrl: string;
beforeAll(async () => {
  const model = await startModelServer(build);
  afterFile(() => model.close());
  modelUrl = model.url;
  servers = { databaseUrl: await freshDatabase(), ...(await freshNamespace()) };
});

/** What programs need besides. The key is one that their logs say nothing about. */
const direct = () => ({ PERDURE_DIRECT_DATABASE_URL: servers.databaseUrl, OPENAI_API_KEY: 'key of the test' });

/** Programs whose database is behind PgBouncer. */
async function through(settings: Record<string, string | number>): Promise<{ pooled: string; processes: Processes }> {
  const pooled = await startPgBouncer(servers.databaseUrl, { default_pool_size: SHARED, ...settings });
  return { pooled, processes: await processesOn({ ...servers, databaseUrl: pooled }, modelUrl) };
}

/** Requests of users, and those that failed. */
class Tally {
  count = 0;
  readonly failures: string[] = [];

  async note<T>(what: string, request: Promise<T & { status: number }>): Promise<T | undefined> {
    this.count += 1;
    const answer = await request.catch((error: unknown) => ({ status: String(error) }));
    if (typeof answer.status === 'number' && answer.status < 300) return answer as T;
    this.failures.push(`${what}: ${answer.status}`);
    return undefined;
  }
}

/** A user builds a site and publishes it, and reads what is stored. */
async function useSession(caller: TestCaller, tally: Tally): Promise<void> {
  const opened = await tally.note('open', caller.post('/api/sessions', {}));
  if (opened === undefined) return;
  const id = opened.body.session.session_id as string;
  const post = (name: string, body: object) => tally.note(name, caller.post(`/api/sessions/${id}/${name}`, body));
  const get = (name: string) => tally.note(name, caller.get(`/api/sessions/${id}${name}`));
  await Promise.all([get(''), get('/messages'), post('rename', { title: 'a site' })]);
  const body = { id, messages: [{ id: newId('msg'), role: 'user', parts: [{ type: 'text', text: 'a site' }] }] };
  const stream = await tally.note('chat', caller.fetch('/api/chat', { method: 'POST', body: JSON.stringify(body) }));
  if (stream === undefined) return;
  const chunks = await chunksOf(stream);
  if (chunks.at(-1)?.type !== 'finish') tally.failures.push(`turn: ${JSON.stringify(chunks.at(-1))}`);
  const published = await post('publish', {});
  if (published?.body.phase !== 'done') tally.failures.push(`published: ${JSON.stringify(published?.body)}`);
  await Promise.all([get('/messages'), get('/log'), get('/todos'), post('archive', {})]);
}

describe.skipIf(version === undefined)(`PgBouncer ${version?.join('.')}`, () => {
  it.each(MODES)(
    'H1 %s: turns with tools, commands and readers of twenty sessions at once',
    async (_n, settings, env) => {
      const { processes } = await through(settings);
      const all = { ...direct(), ...env };
      const [worker, host] = await Promise.all([processes.worker(all), processes.host(all)]);
      const tally = new Tally();
      await useSession(host.as('ada'), tally);
      await Promise.all(Array.from({ length: SESSIONS }, (_, n) => useSession(host.as(`user ${n}`), tally)));
      console.log(`test/campaign/pgbouncer: ${tally.failures.length} of ${tally.count} requests failed`);
      expect(tally.failures).toEqual([]);
      expect((await fetch(`${host.url}/readyz`)).status).toBe(200);
      for (const program of [worker, host]) {
        const told = (await program.logs()).filter(({ level }) => level >= 40).map(({ msg }) => msg);
        expect(new Set(told)).toEqual(
          new Set([expect.stringMatching(/^Postgres is used through a pooler.*ALTER ROLE/)]),
        );
        expect(await program.stop()).toMatchObject({ code: 0 });
      }
    },
  );

  it('H1 every program refuses to start without a direct connection, or with a parameter that is refused', async () => {
    const { pooled, processes } = await through({});
    await expectRefused(processes, {}, /PERDURE_DIRECT_DATABASE_URL: expected the URL of Postgres itself.*not set/);
    const twice = { PERDURE_DIRECT_DATABASE_URL: `${pooled}?application_name=direct` };
    await expectRefused(
      processes,
      twice,
      /PERDURE_DIRECT_DATABASE_URL: expected Postgres itself, or a pooler in session/,
    );
    const parameter = {
      DATABASE_URL: `${pooled}?lock_timeout=1000`,
      PERDURE_DIRECT_DATABASE_URL: `${pooled}?lock_timeout=1000`,
    };
    await expectRefused(processes, parameter, /DATABASE_URL: expected a URL without lock_timeout, which the pooler/);
  });

  it('H1 a pooler in session mode needs no direct connection', async () => {
    const { processes } = await through({ pool_mode: 'session', default_pool_size: 60 });
    const [, host] = await Promise.all([processes.worker(), processes.host()]);
    const tally = new Tally();
    await useSession(host.as('ada'), tally);
    expect(tally.failures).toEqual([]);
  });

  it('H1 limits of the role apply through the pooler, and nothing is warned of', async () => {
    const { pooled, processes } = await through({});
    const { pathname, username } = new URL(servers.databaseUrl);
    const db = new pg.Client(servers.databaseUrl);
    await db.connect();
    const role = `${pg.escapeIdentifier(username)} IN DATABASE ${pg.escapeIdentifier(pathname.slice(1))}`;
    for (const name of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']) {
      await db.query(`ALTER ROLE ${role} SET ${name} = 7000`);
    }
    await db.end();
    const worker = await processes.worker(direct());
    expect((await worker.logs()).filter(({ level }) => level >= 40)).toEqual([]);
    const client = new pg.Client(pooled);
    await client.connect();
    expect((await client.query('SHOW statement_timeout')).rows).toEqual([{ statement_timeout: '7s' }]);
    await client.end();
  });
});

/** Starts worker, host and migration, which end with a last line that says what is wrong. */
async function expectRefused(processes: Processes, env: Record<string, string>, line: RegExp): Promise<void> {
  await expect(processes.worker(env)).rejects.toThrow(line);
  const host = await processes.host(env);
  expect(await host.exited).toMatchObject({ code: 1 });
  expect((await host.logs()).at(-1)).toMatchObject({ level: 60, msg: expect.stringMatching(line) });
  const program = path.resolve('migrations', 'main.ts');
  const migrate = await execa(process.execPath, [program], {
    env: { ...processes.env, ...env },
    extendEnv: false,
    reject: false,
  });
  expect(migrate).toMatchObject({ exitCode: 1, stdout: expect.stringMatching(line) });
}
