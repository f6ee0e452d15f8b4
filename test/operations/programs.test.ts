// Starting and ending the programs: what they wait for, what ends them, and what they write.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { registerSearchAttributes } from '../../config/search-attributes.ts';
import { COMPILE_CACHE } from '../../dev/node-process.ts';
import { MIGRATION_LOCK } from '../../migrations/migrate.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { expectLeastOfThree } from '../../tools/test-kit/least-of-three.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { withSharedBundles } from '../../tools/test-kit/shared-caches.ts';
import { startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';

const PROGRAMS = ['worker', 'host', 'migrations'] as const;
const SECOND_MS = 1_000;
/** An address that refuses connections. */
const ABSENT = '127.0.0.1:1';

let good: Record<string, string>;
let refusing: string;
const dir = scratchDir();
beforeAll(async () => {
  const { address, namespace } = await freshNamespace();
  good = { DATABASE_URL: await freshDatabase(), TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
  refusing = await refusingServer();
  await withSharedBundles(dir);
});

interface Program {
  child: ChildProcess;
  /** All that it wrote so far, to stdout and stderr. */
  output(): string;
  exited: Promise<number | null>;
}

function start(name: (typeof PROGRAMS)[number], env: Record<string, string>): Program {
  const common = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: COMPILE_CACHE, PERDURE_DIR: dir, PORT: '0' };
  const child = spawn(process.execPath, [`${name}/main.ts`], { env: { ...common, ...good, ...env } });
  afterFile(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()));
  return { child, output: () => output, exited: once(child, 'close').then(([code]) => code as number | null) };
}

/** A server of gRPC that accepts nobody: status 16, UNAUTHENTICATED. */
async function refusingServer(): Promise<string> {
  const server = createServer();
  server.on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '16' }, { endStream: true });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterFile(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Milliseconds from SIGTERM to the exit. */
async function terminate({ child, exited }: Program): Promise<number> {
  const at = performance.now();
  child.kill('SIGTERM');
  await once(child, 'exit');
  const took = performance.now() - at;
  await exited;
  return took;
}

const linesOf = (output: string) =>
  output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('what waiting cannot mend', () => {
  const wrong = (change: (url: URL) => void) => {
    const url = new URL(good['DATABASE_URL']!);
    change(url);
    return { DATABASE_URL: url.href };
  };
  it.each([
    [
      'a wrong password',
      () => wrong((url) => (url.password = 'wrong-password')),
      /DATABASE_URL: expected a user and password/,
    ],
    [
      'a missing database',
      () => wrong((url) => (url.pathname = '/nowhere')),
      /DATABASE_URL: expected a database.*nowhere/,
    ],
    [
      'a missing namespace',
      () => ({ TEMPORAL_NAMESPACE: 'nowhere' }),
      /TEMPORAL_NAMESPACE: expected a namespace.*"nowhere"/,
    ],
    [
      'an unknown key',
      () => ({ TEMPORAL_ADDRESS: refusing, TEMPORAL_API_KEY: 'no-such-key', TEMPORAL_TLS: 'false' }),
      /TEMPORAL_API_KEY: expected a key.*refuses this one/,
    ],
  ])('H1 %s ends every program with a last line that names the variable', async (_name, env, line) => {
    const programs = PROGRAMS.map((name) => start(name, env()));
    expect(await Promise.all(programs.map(({ exited }) => exited))).toEqual([1, 1, 1]);
    for (const program of programs) {
      const last = linesOf(program.output()).at(-1)!;
      expect(last).toMatchObject({ level: 60, msg: expect.stringMatching(line) });
      expect(last).not.toHaveProperty('err');
      expect(program.output()).not.toMatch(/wrong-password|no-such-key/);
    }
  });
});

it('H1 migrate names the search attributes that it may not add, as in Temporal Cloud', async () => {
  const operatorService = {
    listSearchAttributes: async () => ({ customAttributes: { PerdureUser: 2, PerdurePhase: 2 } }),
    addSearchAttributes: async () => {
      throw Object.assign(new Error('7 PERMISSION_DENIED: Request unauthorized.'), { code: 7 });
    },
  };
  const connection = { operatorService } as unknown as Parameters<typeof registerSearchAttributes>[0];
  await expect(registerSearchAttributes(connection, 'name.account')).rejects.toThrow(
    /TEMPORAL_NAMESPACE: expected .*PerdureProject, PerdureStatus, of type Keyword: "name.account" lacks them/,
  );
});

describe('SIGTERM', () => {
  it.each([
    ['Postgres', { DATABASE_URL: `postgres://u:p@${ABSENT}/none` }],
    ['Temporal', { TEMPORAL_ADDRESS: ABSENT }],
  ])(
    'H1 ends programs that wait for an absent %s within a second, and they write JSON lines only',
    async (name, env) => {
      const says = new RegExp(`${name} cannot be reached at ${ABSENT}`, 'i');
      await Promise.all(PROGRAMS.map((each) => expectEndsInTime(each, env, says)));
    },
  );

  it('H1 ends a worker that waits for the migration, and a migration that waits for another, within a second', async () => {
    const empty = await freshDatabase({ empty: true });
    await expectEndsInTime('worker', { DATABASE_URL: empty }, /run `perdure migrate`/);
    const other = new pg.Client(empty);
    await other.connect();
    await other.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    const waits = async () => {
      const { rows } = await other.query(
        "SELECT FROM pg_stat_activity WHERE query ~ 'pg_try_advisory_lock' AND pid <> pg_backend_pid() AND datname = current_database()",
      );
      expect(rows).not.toEqual([]);
    };
    try {
      await expectEndsInTime('migrations', { DATABASE_URL: empty }, waits);
    } finally {
      await other.end();
    }
  });

  it('H1 ends an idle worker and host within a second', async () => {
    await Promise.all((['worker', 'host'] as const).map((name) => expectEndsInTime(name, {}, /"ready"/)));
  });

  it('T5 ends the lease of an idle worker before it exits, also if Temporal does not answer', async () => {
    const { hostname, port } = new URL(`tcp://${good['TEMPORAL_ADDRESS']}`);
    const temporal = await startTcpProxy({ host: hostname, port: Number(port) });
    afterFile(() => {
      temporal.resume();
      return temporal.close();
    });
    const database = await freshDatabase();
    const db = patientPool(database);
    afterFile(() => db.end());
    const leases = async () => (await db.query('SELECT FROM worker_leases')).rowCount;
    const { namespace } = await freshNamespace();
    const worker = start('worker', {
      DATABASE_URL: database,
      TEMPORAL_ADDRESS: `${temporal.host}:${temporal.port}`,
      TEMPORAL_NAMESPACE: namespace,
    });
    await eventually(async () => expect(await leases(), worker.output()).toBe(1), { timeout: 45_000 });
    temporal.stall();
    await terminate(worker);
    expect(worker.child.exitCode).toBe(0);
    expect(await leases()).toBe(0);
  });
});

/**
 * Starts a program, awaits a state of it (a text that it has written, or a check that passes), and expects that it exits
 * within a second of SIGTERM with code 0.
 */
async function expectEndsInTime(
  name: (typeof PROGRAMS)[number],
  env: Record<string, string>,
  state: RegExp | (() => Promise<void>),
): Promise<void> {
  await expectLeastOfThree(`${name}, from SIGTERM to the exit`, SECOND_MS, async () => {
    const program = start(name, env);
    const isThere = state instanceof RegExp ? () => expect(program.output()).toMatch(state) : state;
    await eventually(isThere, { timeout: 45_000 });
    const took = await terminate(program);
    expect(program.child.exitCode).toBe(0);
    expect(linesOf(program.output()).at(-1)).toMatchObject({ msg: 'stopped' });
    return took;
  });
}
