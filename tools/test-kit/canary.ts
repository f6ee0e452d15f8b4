import type pg from 'pg';
import { eventually } from './eventually.ts';

/**
 * The tables of a database with a row that contains a text, in any column; without the leases of workers, which they renew all
 * the time. The search indexes everything first, so that its tables do not depend on when workers do.
 */
export async function tablesWith(db: pg.Pool, text: string): Promise<string[]> {
  await eventually(async () => {
    await db.query('SELECT index_messages(NULL, 1000000)');
    if ((await db.query('SELECT FROM search_queue')).rowCount !== 0) throw new Error('messages wait to be indexed');
  });
  const { rows } = await db.query<{ name: string }>(
    `SELECT c.oid::regclass::text AS name FROM pg_class c
      WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        AND relname NOT IN ('worker_leases', 'worker_activities') ORDER BY 1`,
  );
  const found = await Promise.all(
    rows.map(async ({ name }) => {
      const { rowCount } = await db.query(`SELECT FROM ${name} AS r WHERE strpos(r::text, $1) > 0 LIMIT 1`, [text]);
      return rowCount === 0 ? [] : [name];
    }),
  );
  return found.flat();
}
