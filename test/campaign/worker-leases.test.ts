// Leases of workers on a real Postgres, without Temporal: who is found lost, and who is not.
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createDatabase } from '../../dev/databases.ts';
import { freePort } from '../../dev/ports.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { migrate } from '../../migrations/migrate.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { randomIntegers } from '../../tools/test-kit/cases.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { latency, packetLoss, slowStatements, startTcpProxy, type TcpProxy } from '../../tools/test-kit/tcp-proxy.ts';
import { LeaseKeeper } from '../../worker/leases/lease-keeper.ts';

const LEASE_MS = 1_500;
/** A worker judges others once it has been connected for five seconds. */
const JUDGES_AFTER_MS = 5_000;
/** Longer than anybody is spared after an incident. */
const SPARED_MS = JUDGES_AFTER_MS + 2 * LEASE_MS;

/** A worker's lease through a link of its own, and what it has found. */
interface Holder {
  worker: string;
  keeper: LeaseKeeper;
  link: TcpProxy;
  lost: string[][];
  mistaken: number;
  /** Called when others took it for lost. */
  onMistaken?: () => void;
}

const dir = scratchDir();
const open: (() => Promise<void>)[] = [];
afterFile(() => Promise.all(open.map((close) => close())));

async function holder(databaseUrl: string, tokens: string[] = []): Promise<Holder> {
  const url = new URL(databaseUrl);
  const link = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  url.host = `${link.host}:${link.port}`;
  const found: Pick<Holder, 'lost' | 'mistaken' | 'onMistaken'> = { lost: [], mistaken: 0 };
  const worker = randomUUID();
  const keeper = new LeaseKeeper({
    worker,
    connectionString: url.href,
    leaseMs: LEASE_MS,
    agents: [],
    onLost: (_worker, work) =>
      void found.lost.push(work.tokens.map((token) => Buffer.from(token).toString()).toSorted()),
    onMistaken: () => {
      found.mistaken += 1;
      found.onMistaken?.();
    },
    onError: () => {},
  });
  tokens.forEach((token, number) => keeper.begin(number, Buffer.from(token)));
  open.push(async () => {
    link.holdBack = undefined;
    link.resume();
    await keeper.close();
    await link.close();
  });
  return Object.assign(found, { worker, keeper, link });
}

/** Workers that have been up long enough to judge, each with one activity. */
async function holders(databaseUrl: string, names: string[]): Promise<Holder[]> {
  const all = await Promise.all(names.map((name) => holder(databaseUrl, [name])));
  await delay(JUDGES_AFTER_MS + LEASE_MS);
  return all;
}

const slowness = randomIntegers('a slow link');

describe.concurrent('leases of workers', () => {
  it('T5 a worker that no longer renews its lease is found lost, once, with the activities that it runs', async () => {
    const database = await freshDatabase();
    const [a, b, c] = (await holders(database, ['a', 'b', 'c'])) as [Holder, Holder, Holder];
    b.keeper.begin(1, Buffer.from('b2'));
    b.keeper.begin(2, Buffer.from('b3'));
    b.keeper.end(0);
    const db = patientPool(database);
    open.push(() => db.end());
    const listed = () => db.query(`SELECT number FROM worker_activities WHERE encode(task_token, 'escape') LIKE 'b%'`);
    await eventually(async () => expect((await listed()).rowCount).toBe(2));
    const since = performance.now();
    b.link.stall();
    await eventually(() => expect([...a.lost, ...c.lost]).toEqual([['b2', 'b3']]));
    expect(performance.now() - since).toBeGreaterThan((LEASE_MS * 2) / 3);

    b.link.resume();
    await eventually(() => expect(b.mistaken).toBe(1));
    const held = () => db.query('SELECT FROM worker_leases WHERE worker_id = $1 AND lost_at IS NULL', [b.worker]);
    await eventually(async () => expect((await held()).rowCount, 'it takes its lease again').toBe(1));
    expect((await listed()).rowCount, 'with its activities').toBe(2);
  });

  it('T5 a worker that stops before it has taken its lease again leaves nothing for others to find', async () => {
    const database = await freshDatabase();
    const [a, b] = (await holders(database, ['a', 'b'])) as [Holder, Holder];
    const closed = Promise.withResolvers<void>();
    b.onMistaken = () => closed.resolve(b.keeper.close());
    b.link.stall();
    await eventually(() => expect(a.lost).toEqual([['b']]));
    b.link.resume();
    await closed.promise;
    const db = patientPool(database);
    open.push(() => db.end());
    const rows = (table: string) => db.query(`SELECT FROM ${table} WHERE worker_id = $1`, [b.worker]);
    expect((await rows('worker_activities')).rowCount).toBe(0);
    expect((await rows('worker_leases')).rowCount).toBe(0);
  });

  it('T5 a lost worker is found again until its activities have been failed, by whoever is there', async () => {
    const database = await freshDatabase();
    const [a, b, c] = (await holders(database, ['a', 'b', 'c'])) as [Holder, Holder, Holder];
    c.link.stall();
    await eventually(() => expect([...a.lost, ...b.lost]).toEqual([['c']]));
    const [finder, other] = a.lost.length > 0 ? [a, b] : [b, a];
    await finder.keeper.close();
    await eventually(() => expect(other.lost).toEqual([['c']]));
  });

  it.each<[string, (links: TcpProxy[]) => unknown]>([
    ['a stall of Postgres, after which one worker continues before the others', stallAll],
    [
      'a Postgres that needs two seconds per statement',
      (links) =>
        hold(
          links,
          slowStatements(() => 2_000),
        ),
    ],
    ['the end of every connection, after which one worker reconnects before the others', resetAll],
    [
      'a slow link of one worker',
      ([link]) =>
        hold(
          [link!],
          latency(() => 200 + slowness(200)),
        ),
    ],
    ['a lossy link of one worker', ([link]) => hold([link!], packetLoss(0.5, losses()))],
  ])('T5 nobody is lost: %s', async (_what, happens) => {
    const all = await holders(await freshDatabase(), ['a', 'b', 'c']);
    await happens(all.map(({ link }) => link));
    await delay(SPARED_MS);
    expect(all.map(({ lost, mistaken }) => ({ lost, mistaken }))).toEqual(all.map(() => ({ lost: [], mistaken: 0 })));
  });

  it('T5 nobody is lost: a crash of Postgres; afterwards a worker is found lost as before', async () => {
    const postgres = await startPostgres({ dir: path.join(dir, 'pg'), port: await freePort(), ephemeral: true });
    afterFile(() => postgres.stop());
    const database = await createDatabase(postgres.url, 'leases');
    await migrate(database);
    const [a, b] = (await holders(database, ['a', 'b'])) as [Holder, Holder];
    const db = patientPool(database);
    open.push(() => db.end());
    const { rows } = await db.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    process.kill(rows[0]!.pid, 'SIGKILL');
    await delay(SPARED_MS);
    expect([a.lost, b.lost, a.mistaken, b.mistaken]).toEqual([[], [], 0, 0]);
    b.link.stall();
    await eventually(() => expect(a.lost).toEqual([['b']]));
  });
});

async function stallAll(links: TcpProxy[]): Promise<void> {
  for (const link of links) link.stall();
  await delay(2_500);
  for (const link of links) {
    link.resume();
    await delay(LEASE_MS * 0.8);
  }
}

async function resetAll([first, ...others]: TcpProxy[]): Promise<void> {
  first!.reset();
  for (const link of others) {
    link.stall();
    link.reset();
  }
  await delay(3_000);
  for (const link of others) link.resume();
}

/** One packet in twenty is lost, never twice. */
function losses(): () => number {
  let n = 0;
  return () => (++n % 20 === 0 ? 0 : 1);
}

function hold(links: TcpProxy[], holdBack: NonNullable<TcpProxy['holdBack']>): void {
  for (const link of links) link.holdBack = holdBack;
}
