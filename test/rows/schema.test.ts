import { expect, it } from 'vitest';
import { freshRows, rows } from './session.ts';

const db = await freshRows();

/** Reads one catalog query's only column, in order. */
async function lines(sql: string): Promise<string[]> {
  return (await rows(db, sql)).map((row) => String(Object.values(row)[0]));
}

const TABLES = `
  SELECT c.oid::regclass || ' ' || coalesce(array_to_string(c.reloptions, ' '), '') || E'\\n' ||
         (SELECT string_agg('  ' || attname || ' ' || format_type(atttypid, atttypmod)
                   || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
                   || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), ''), E'\\n' ORDER BY attnum)
            FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
           WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
    FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname`;
const CONSTRAINTS = `
  SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(k.oid)
    FROM pg_constraint k WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY conrelid::regclass::text, conname`;
const INDEXES = `SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname`;
const TRIGGERS = `
  SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT tgisinternal ORDER BY tgrelid::regclass::text, tgname`;
const VIEWS = `
  SELECT viewname || E'\\n' || pg_get_viewdef(viewname::regclass, true) FROM pg_views WHERE schemaname = 'public'`;
const FUNCTIONS = `
  SELECT proname || '(' || pg_get_function_arguments(p.oid) || ')'
         || coalesce(' RETURNS ' || pg_get_function_result(p.oid), ' PROCEDURE')
         || ' LANGUAGE ' || lanname
         || CASE provolatile WHEN 'i' THEN ' IMMUTABLE' WHEN 's' THEN ' STABLE' ELSE '' END
         || coalesce(' SET ' || array_to_string(proconfig, ' SET '), '')
    FROM pg_proc p JOIN pg_language l ON l.oid = prolang
   WHERE pronamespace = 'public'::regnamespace ORDER BY proname`;

it('H1 migrations and store/sql produce the schema in migrations/schema.txt (`npm test -- test/rows/schema -u` rewrites it)', async () => {
  const parts: string[] = [];
  for (const [title, sql] of Object.entries({ TABLES, CONSTRAINTS, INDEXES, TRIGGERS, VIEWS, FUNCTIONS })) {
    parts.push(`== ${title}\n${(await lines(sql)).join('\n')}\n`);
  }
  await expect(parts.join('\n')).toMatchFileSnapshot('../../migrations/schema.txt');
});

it('H1 no function has two signatures', async () => {
  const twice = `SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace GROUP BY proname HAVING count(*) > 1`;
  expect(await lines(twice)).toEqual([]);
});
