import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import { machineRows } from '../domain/initiatives/machines.ts';
import { transitionRows } from '../domain/phases.ts';

const FUNCTIONS = path.join(import.meta.dirname, '..', 'store', 'sql');

/** The part of the schema that each build replaces: SQL functions and views, and the tables of transitions. */
export interface Functions {
  sql: string;
  /** A jsonb array of { phase, event, next }. */
  transitions: string;
  /** A jsonb array of { machine, status, event, next }. */
  machines: string;
  /** SHA-256 of all three. */
  digest: string;
}

/** Reads this build's functions from `folder`, one file per table group. */
export async function readFunctions(folder: string = FUNCTIONS): Promise<Functions> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
  const files = await Promise.all(names.map((name) => readFile(path.join(folder, name), 'utf8')));
  const sql = files.join('\n');
  const transitions = JSON.stringify(transitionRows());
  const machines = JSON.stringify(machineRows());
  const digest = createHash('sha256').update(sql).update(transitions).update(machines).digest('hex');
  return { sql, transitions, machines, digest };
}

/** Every digest that was applied to this database, newest first; empty where none was. */
export async function appliedDigests(db: pg.Pool | pg.Client): Promise<string[]> {
  const { rowCount } = await db.query(`SELECT FROM pg_class WHERE oid = to_regclass('schema_functions')`);
  if (rowCount === 0) return [];
  const { rows } = await db.query<{ digest: string }>('SELECT digest FROM schema_functions ORDER BY n DESC');
  return rows.map((row) => row.digest);
}

/** Drops functions of the names that this transaction has created, but with other arguments: those of another build. */
const DROP_OTHER_FORMS = `
  DO $$ DECLARE v_other regprocedure; BEGIN
    FOR v_other IN
      SELECT other.oid::regprocedure FROM pg_proc ours JOIN pg_proc other USING (proname, pronamespace)
       WHERE pronamespace = current_schema()::regnamespace
         AND ours.xmin = pg_current_xact_id()::xid AND other.xmin <> ours.xmin
    LOOP
      EXECUTE format('DROP FUNCTION %s', v_other);
    END LOOP;
  END $$`;

/** Replaces the functions, and records the digest as the newest. Runs inside a transaction. */
export async function applyFunctions(db: pg.ClientBase, { sql, digest }: Functions): Promise<void> {
  // SQL functions call one another in any order: created unchecked first, then again with their bodies checked.
  await db.query('SET LOCAL check_function_bodies = off');
  await db.query(sql);
  await db.query('SET LOCAL check_function_bodies = on');
  await db.query(sql);
  await db.query(DROP_OTHER_FORMS);
  await db.query('DELETE FROM schema_functions WHERE digest = $1', [digest]);
  await db.query('INSERT INTO schema_functions (digest) VALUES ($1)', [digest]);
}

/** Brings the tables of transitions to the domain's, whoever changed them. */
export async function applyTransitions(db: pg.ClientBase, { transitions, machines }: Functions): Promise<void> {
  await db.query(
    `WITH wanted AS (
       SELECT * FROM jsonb_to_recordset($1::jsonb) AS row(phase text, event text, next text)
     ), removed AS (
       DELETE FROM phase_transitions WHERE (phase, event) NOT IN (SELECT phase, event FROM wanted)
     )
     INSERT INTO phase_transitions AS stored SELECT phase, event, next FROM wanted
     ON CONFLICT (phase, event) DO UPDATE SET next = excluded.next WHERE stored.next <> excluded.next`,
    [transitions],
  );
  await db.query(
    `WITH wanted AS (
       SELECT * FROM jsonb_to_recordset($1::jsonb) AS row(machine text, status text, event text, next text)
     ), removed AS (
       DELETE FROM initiative_transitions WHERE (machine, status, event) NOT IN (SELECT machine, status, event FROM wanted)
     )
     INSERT INTO initiative_transitions AS stored SELECT machine, status, event, next FROM wanted
     ON CONFLICT (machine, status, event) DO UPDATE SET next = excluded.next WHERE stored.next <> excluded.next`,
    [machines],
  );
}
