import type pg from 'pg';

/** How many bytes of write-ahead log Postgres has written since its cluster was made. */
export async function walPosition(db: pg.Pool): Promise<number> {
  const { rows } = await db.query<{ at: string }>("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS at");
  return Number(rows[0]!.at);
}
