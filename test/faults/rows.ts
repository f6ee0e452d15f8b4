// Rows that tests of faults write and read.
import type pg from 'pg';
import { newId } from '../../domain/ids.ts';
import type { PhaseEvent } from '../../domain/phases.ts';

/** Moves a session through the phases, as commands do. */
export async function raise(db: pg.Pool, sessionId: string, path: readonly PhaseEvent[]): Promise<void> {
  for (const event of path) {
    const outcome = await raiseEvent(db, sessionId, event, { actor: 'system', command: `setup:${newId('cmd')}` });
    if (outcome['ok'] !== true) throw new Error(`${event} is not legal in this phase`);
  }
}

/** Raises an event like a command, also one that only tools raise. */
export async function raiseEvent(
  db: pg.Pool | pg.ClientBase,
  sessionId: string,
  event: PhaseEvent,
  { actor = 'user', command }: { actor?: string; command: string },
): Promise<Record<string, unknown>> {
  const { rows } = await db.query<{ outcome: Record<string, unknown> }>(
    `SELECT coalesce(begin_command($1, $4),
                     record_command($1, $2, raise_event($1, $2), $3, $4)) AS outcome`,
    [sessionId, event, actor, command],
  );
  return rows[0]!.outcome;
}

/** Loads a session as another execution of its workflow would, which fences off what this one has scheduled. */
export async function loadElsewhere(db: pg.Pool, sessionId: string): Promise<void> {
  await db.query(
    `SELECT load_session(session_id, 'another', 1, $2, coalesce(load_execution, ''))
       FROM chat_sessions WHERE session_id = $1`,
    [sessionId, Date.now()],
  );
}

export interface EventRow {
  seq: number;
  kind: string;
  actor: string;
  data: Record<string, unknown>;
  command_id: string | null;
}

/** The event log of a session, oldest first. */
export async function events(db: pg.Pool, sessionId: string): Promise<EventRow[]> {
  const { rows } = await db.query<EventRow>('SELECT * FROM session_events WHERE session_id = $1 ORDER BY seq', [
    sessionId,
  ]);
  return rows;
}

/** The events of commands that went through the workflow. */
export async function commandRows(db: pg.Pool, sessionId: string): Promise<EventRow[]> {
  const all = await events(db, sessionId);
  return all.filter((row) => row.kind !== 'opened' && row.command_id?.startsWith('setup:') !== true);
}

/** All rows of a session, for a later comparison. */
export async function allRows(db: pg.Pool, sessionId: string): Promise<unknown> {
  const tables = [
    'sessions',
    'chat_sessions',
    'chat_runs',
    'chat_messages',
    'chat_parts',
    'part_deltas',
    'session_events',
  ];
  const read = tables.map(async (table) => {
    const { rows } = await db.query(`SELECT to_jsonb(t) AS row FROM ${table} t WHERE session_id = $1 ORDER BY 1`, [
      sessionId,
    ]);
    return [table, rows];
  });
  return Object.fromEntries((await Promise.all(read)) as [string, unknown][]);
}
