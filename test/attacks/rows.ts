// The contents of a database as one text per table, to show that an attack changed nothing.
import type pg from 'pg';
import { expect } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';

/**
 * Every table's rows as text, by table name; rows that contain `without` are left out. Without the leases of workers, which
 * they renew all the time. The search indexes everything first, so that its tables do not depend on when workers do.
 */
export async function allRows(db: pg.Pool, without?: string): Promise<Record<string, string>> {
  await eventually(async () => {
    await db.query('SELECT index_messages(NULL, 1000000)');
    expect((await db.query('SELECT FROM search_queue')).rows).toEqual([]);
  });
  const { rows: tables } = await db.query<{ name: string }>(
    `SELECT quote_ident(table_name) AS name FROM information_schema.tables
      WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
        AND table_name NOT IN ('worker_leases', 'worker_activities')
      ORDER BY 1`,
  );
  const contents = tables.map(async ({ name }) => {
    const { rows } = await db.query<{ text: string }>(
      `SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') AS text FROM ${name} t
        WHERE $1::text IS NULL OR strpos(t::text, $1) = 0`,
      [without ?? null],
    );
    return [name, rows[0]!.text] as const;
  });
  return Object.fromEntries(await Promise.all(contents));
}
