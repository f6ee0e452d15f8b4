// The contents of a database as one text per table, to show that an attack changed nothing.
import type pg from 'pg';

/** Every table's rows as text, by table name; rows that contain `without` are left out. */
export async function allRows(db: pg.Pool, without?: string): Promise<Record<string, string>> {
  const { rows: tables } = await db.query<{ name: string }>(
    `SELECT quote_ident(table_name) AS name FROM information_schema.tables
      WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`,
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
