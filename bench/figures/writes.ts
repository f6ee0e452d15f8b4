import { setTimeout as delay } from 'node:timers/promises';
import type { Bench, Figure } from '../figure.ts';
import { rest, turn } from '../turn.ts';

const BYTES = 32_000;
const CHUNKS = 2_000;
/** A model that says 200 tokens a second. */
const PACE_MS = 5;

async function walPosition({ system: { db } }: Bench): Promise<number> {
  const { rows } = await db.query<{ at: number }>("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS at");
  return rows[0]!.at;
}

export const wal: Figure = {
  name: 'wal',
  measure: async (bench) => {
    const sessionId = await bench.system.client.open();
    const long = { chunks: CHUNKS, size: BYTES / CHUNKS, pace: PACE_MS };
    await turn(bench.system, sessionId);
    // The first change of a page behind a checkpoint is written whole: a little page for each table, but not per byte.
    await bench.system.db.query('CHECKPOINT');
    await turn(bench.system, sessionId);
    await delay(200);
    const before = await walPosition(bench);
    await turn(bench.system, sessionId, long);
    const written = (await walPosition(bench)) - before;
    const value = written / BYTES;
    return [{ name: 'WAL of a 32 KB answer in 2,000 chunks', value, unit: 'B/B', target: 20, detail: `${written} B` }];
  },
};

const TURNS = 10;

export const statements: Figure = {
  name: 'statements',
  measure: async ({ system }) => {
    const sessionId = await system.client.open();
    await turn(system, sessionId);
    await system.db.query("ALTER SYSTEM SET log_statement = 'all'");
    await system.db.query('SELECT pg_reload_conf()');
    await delay(100);
    const before = (await system.postgresLog()).length;
    for (let n = 0; n < TURNS; n += 1) {
      await turn(system, sessionId, { chunks: 60 });
      await rest();
    }
    const logged = (await system.postgresLog()).slice(before);
    await system.db.query("ALTER SYSTEM SET log_statement = 'none'");
    await system.db.query('SELECT pg_reload_conf()');
    const counts = countOf(logged);
    const perTurn = [...counts].map(([name, count]) => `${name} ${(count / TURNS).toFixed(1)}`);
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0) / TURNS;
    return [{ name: 'Postgres statements of a 60-chunk turn', value: total, unit: '', detail: perTurn.join(', ') }];
  },
};

/** Statements by name; those that have none belong to no turn, but for a few that are told by how they begin. */
function countOf(log: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [, name = ''] of log.matchAll(/LOG: {2}execute ([^:]+): /g)) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
