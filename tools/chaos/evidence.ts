// What is known once the system is idle: rows, responses to users, chunks of readers, calls of the model.
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import type { Phase, PhaseEvent } from '../../domain/phases.ts';
import type { Usage } from '../../domain/usage.ts';
import type { ToolRun } from './agents.ts';
import type { Readings } from './api.ts';
import type { Driver } from './driver.ts';
import type { ModelCall } from './model.ts';
import type { World } from './world.ts';

export interface PartRow {
  id: string;
  message_id: string;
  session_id: string;
  index: number;
  data: Record<string, unknown> & { type: string };
  tool_call_id: string | null;
  tool_state: string | null;
}

export interface MessageRow {
  id: string;
  session_id: string;
  position: number;
  role: string;
  metadata: { usage?: Usage; steps?: { usage: Usage }[]; hidden_by?: { cause: string } } & Record<string, unknown>;
  hidden_at: Date | null;
}

export interface RunRow {
  session_id: string;
  seq: number;
  message_id: string;
  answer_id: string;
  state: string;
  step: number;
}

export interface EventRow {
  session_id: string;
  seq: number;
  kind: string;
  data: { event?: PhaseEvent; from?: Phase; to?: Phase; tool_call_id?: string } & Record<string, unknown>;
  command_id: string | null;
}

export interface SessionRow {
  session_id: string;
  phase: Phase;
  project_id: string | null;
  pending_tool: unknown;
  bytes: number;
}

export type SumsRow = Record<string, number> & { session_id: string };

/** All rows of a campaign. */
export interface Rows {
  sessions: SessionRow[];
  sums: SumsRow[];
  messages: MessageRow[];
  parts: PartRow[];
  runs: RunRow[];
  events: EventRow[];
  deltas: { session_id: string; part_id: string }[];
  aliases: { user_id: string; alias: string; session_id: string }[];
}

export interface Evidence extends Rows {
  world: World;
  drivers: readonly Driver[];
  readings: Readings;
  calls: readonly ModelCall[];
  toolRuns: ToolRun[];
  /** Resolves a driver's alias to the session id. */
  sessionOf(driver: Driver): string;
}

export async function gather(world: World, drivers: readonly Driver[], readings: Readings): Promise<Evidence> {
  const rows = await readRows(world.db);
  const lines = await readFile(world.toolLog, 'utf8').catch(() => '');
  const toolRuns = lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ToolRun);
  const aliases = new Map(rows.aliases.map((row) => [`${row.user_id}/${row.alias}`, row.session_id]));
  const sessionOf = ({ session, api }: Driver) => aliases.get(`${api.user}/${session}`) ?? session;
  return { ...rows, world, drivers, readings, calls: world.model.calls, toolRuns, sessionOf };
}

/** Writes the evidence beside the logs, to debug a violation. */
export async function keepEvidence({ world, drivers, readings, sessionOf, ...known }: Evidence): Promise<void> {
  const users = drivers.map((driver) => ({
    session: sessionOf(driver),
    sent: driver.sent,
    commanded: driver.commanded,
  }));
  await writeFile(path.join(world.keep, 'evidence.json'), JSON.stringify({ ...known, users, readings: readings.all }));
}

async function readRows(db: pg.Pool): Promise<Rows> {
  const all = async <Row>(sql: string) => (await db.query<Row & pg.QueryResultRow>(sql)).rows as Row[];
  return {
    sessions: await all('SELECT *, pg_column_size(s.*) AS bytes FROM sessions s ORDER BY session_id'),
    sums: await all('SELECT * FROM chat_sessions ORDER BY session_id'),
    messages: await all('SELECT * FROM chat_messages ORDER BY session_id, position'),
    parts: await all('SELECT * FROM chat_parts ORDER BY session_id, message_id, index'),
    runs: await all('SELECT * FROM chat_runs ORDER BY session_id, seq'),
    events: await all('SELECT * FROM session_events ORDER BY session_id, seq'),
    deltas: await all('SELECT session_id, part_id FROM part_deltas'),
    aliases: await all('SELECT * FROM session_aliases'),
  };
}

/** Groups rows by key. */
export function by<Row>(rows: readonly Row[], key: (row: Row) => string): Map<string, Row[]> {
  const found = new Map<string, Row[]>();
  for (const row of rows) {
    const known = found.get(key(row));
    if (known) known.push(row);
    else found.set(key(row), [row]);
  }
  return found;
}
