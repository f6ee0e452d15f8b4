// What is known once the system is idle: rows, responses to users, chunks of readers, calls of the model.
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import type { Phase, PhaseEvent } from '../../domain/phases.ts';
import type { Json } from '../../domain/text.ts';
import type { Usage } from '../../domain/usage.ts';
import type { ServerRun, ToolRun } from './agents.ts';
import type { Readings } from './api.ts';
import type { Crew } from './crew.ts';
import type { Driver } from './driver.ts';
import type { ModelCall, SummaryCall } from './model.ts';
import type { InitiativeEvidence, InitiativeEvent, TaskOfInitiative } from './promises/initiatives.ts';
import { recordedStates } from './recorded-states.ts';
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
  metadata: {
    usage?: Usage;
    steps?: { usage: Usage }[];
    discarded?: { usage: Usage }[];
    hidden_by?: { cause: string; id: string };
  } & Record<string, unknown>;
  hidden_at: Date | null;
  created_at: Date;
  /** Of a user message: the driver's name for it, which is in its text; of the result of a child `task-` and its session. */
  tag: string;
}

export interface RunRow {
  session_id: string;
  seq: number;
  message_id: string;
  answer_id: string;
  state: string;
  step: number;
  /** `turn`, or what a user has asked for by hand. */
  kind: string;
  /** Used by its steps, without cache reads. */
  tokens: number;
  model: string | null;
  /** Of its message. */
  tag: string;
}

export interface EventRow {
  session_id: string;
  seq: number;
  at: Date;
  kind: string;
  data: { event?: PhaseEvent; from?: Phase; to?: Phase; tool_call_id?: string } & Record<string, unknown>;
  command_id: string | null;
}

export interface SessionRow {
  session_id: string;
  user_id: string;
  phase: Phase;
  project_id: string | null;
  pending_tool: unknown;
  bytes: number;
}

export interface StateRow {
  scope: string;
  owner: string;
  key: string;
  value: Json;
}

export type SumsRow = Record<string, number> & { session_id: string };

export interface ChatRow {
  session_id: string;
  parent_id: string | null;
  parent_message_id: string | null;
  /** Above 0: a child, which a tool call has opened. */
  depth: number;
  /** The rewinds that can be undone. */
  rewinds: { event_seq: number; message_id: string }[] | null;
}

/** A tool call that has opened a session. */
export interface TaskRow {
  child_id: string;
  parent_id: string;
  /** The run of the parent that has called it. */
  run_seq: number;
  background: boolean;
  created_at: Date;
  ended_at: Date | null;
}

/** Rows of sessions. */
export interface Rows {
  sessions: SessionRow[];
  chats: ChatRow[];
  sums: SumsRow[];
  messages: MessageRow[];
  parts: PartRow[];
  runs: RunRow[];
  events: EventRow[];
  deltas: { session_id: string; part_id: string }[];
  aliases: { user_id: string; alias: string; session_id: string }[];
  state: StateRow[];
}

/** The rows are those of the users' sessions, without their branches and children. */
export interface Evidence extends Rows {
  /** Those of branches, in which nothing happens. */
  branches: Rows;
  /** Those of sessions that tool calls have opened. */
  children: Rows;
  tasks: TaskRow[];
  initiatives: InitiativeEvidence;
  world: World;
  drivers: readonly Driver[];
  crew: Crew;
  readings: Readings;
  calls: readonly ModelCall[];
  summaries: readonly SummaryCall[];
  toolRuns: ToolRun[];
  /** What the MCP server has done. */
  serverRuns: ServerRun[];
  /** Resolves a driver's alias to the session id. */
  sessionOf(driver: Driver): string;
}

/** The users of a campaign, and what they have read. */
export interface Users {
  drivers: readonly Driver[];
  crew: Crew;
  readings: Readings;
}

export async function gather(world: World, { drivers, crew, readings }: Users): Promise<Evidence> {
  const { rows, branches, children } = await readRows(world.db);
  const { rows: tasks } = await world.db.query<TaskRow>('SELECT * FROM tasks ORDER BY created_at');
  const lines = await readFile(world.toolLog, 'utf8').catch(() => '');
  const noted = lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ToolRun | ServerRun);
  const toolRuns = noted.filter((line) => 'call' in line);
  const serverRuns = noted.filter((line) => 'provider' in line);
  const aliases = new Map(rows.aliases.map((row) => [`${row.user_id}/${row.alias}`, row.session_id]));
  const sessionOf = ({ session, api }: Driver) => aliases.get(`${api.user}/${session}`) ?? session;
  const { calls, summaries } = world.model;
  // A session to which nothing was sent has no workflow. Its user opened another one, because the response was lost.
  const used = new Set(rows.runs.map((row) => row.session_id));
  rows.sessions = rows.sessions.filter((row) => used.has(row.session_id));
  const initiatives = await readInitiatives(world.db);
  const found = { ...rows, initiatives, branches, children, tasks, calls, summaries, toolRuns, serverRuns };
  return { ...found, world, drivers, crew, readings, sessionOf };
}

/** The tasks and events of all initiatives, and what was recorded of them. */
export async function readInitiatives(db: pg.Pool): Promise<InitiativeEvidence> {
  const all = async <Row>(sql: string) => (await db.query<Row & pg.QueryResultRow>(sql)).rows as Row[];
  return {
    tasks: await all<TaskOfInitiative>('SELECT * FROM initiative_tasks ORDER BY phase, plan, wave, number'),
    events: await all<InitiativeEvent>('SELECT * FROM initiative_events ORDER BY initiative_id, seq'),
    recorded: await recordedStates(db),
  };
}

/** Writes the evidence beside the logs, to debug a violation. */
export async function keepEvidence({ world, drivers, crew, readings, sessionOf, ...known }: Evidence): Promise<void> {
  const users = drivers.map((driver) => ({
    session: sessionOf(driver),
    sent: driver.sent,
    commanded: driver.commanded,
    roundTrips: driver.goingBack.roundTrips,
    regenerated: driver.goingBack.regenerated,
    uploaded: driver.files.uploaded,
    appended: driver.appending.appended,
  }));
  await writeFile(
    path.join(world.keep, 'evidence.json'),
    JSON.stringify({ ...known, users, stateFiles: crew.read, readings: readings.all }),
  );
}

/** Rows of the users' sessions, of their branches, and of their children. */
interface Groups {
  rows: Rows;
  branches: Rows;
  children: Rows;
}

/** The name in a message's text: a script begins with the canary, the result of a child names the child. */
const NAME = `CASE WHEN data ->> 'text' ~ '^(R|No r)esult of agent ' THEN 'task-' || substring(data ->> 'text' FROM 'ses_\\w+')
                   ELSE split_part(data ->> 'text', ' ', 2) END`;

/** Reads all rows of a database. */
export async function readRows(db: pg.Pool): Promise<Groups> {
  const all = async <Row>(sql: string) => (await db.query<Row & pg.QueryResultRow>(sql)).rows as Row[];
  const tag = (message: string) =>
    `coalesce((SELECT ${NAME} FROM chat_parts p
                WHERE p.session_id = ${message.split('.')[0]}.session_id AND p.message_id = ${message} AND index = 0), '') AS tag`;
  return apart({
    sessions: await all('SELECT *, pg_column_size(s.*) AS bytes FROM sessions s ORDER BY session_id'),
    chats: await all(
      'SELECT session_id, parent_id, parent_message_id, rewinds, depth FROM chat_sessions ORDER BY session_id',
    ),
    sums: await all('SELECT * FROM chat_sessions ORDER BY session_id'),
    messages: await all(`SELECT m.*, ${tag('m.id')} FROM chat_messages m ORDER BY session_id, position`),
    parts: await all('SELECT * FROM chat_parts ORDER BY session_id, message_id, index'),
    runs: await all(`SELECT r.*, ${tag('r.message_id')} FROM chat_runs r ORDER BY session_id, seq`),
    events: await all('SELECT * FROM session_events ORDER BY session_id, seq'),
    deltas: await all('SELECT session_id, part_id FROM part_deltas'),
    aliases: await all('SELECT * FROM session_aliases'),
    state: await all('SELECT scope, owner, key, value FROM scoped_state'),
  });
}

/** The rows of each kind of sessions. */
function apart(rows: Rows): Groups {
  const groups = new Map(rows.chats.map((row) => [row.session_id, groupOf(row)]));
  const only = (group: keyof Groups): Rows => {
    const isIn = (session: string) => (groups.get(session) ?? 'rows') === group;
    const kept = <Row extends { session_id: string }>(all: readonly Row[]) =>
      all.filter(({ session_id }) => isIn(session_id));
    return {
      sessions: kept(rows.sessions),
      chats: kept(rows.chats),
      sums: kept(rows.sums),
      messages: kept(rows.messages),
      parts: kept(rows.parts),
      runs: kept(rows.runs),
      events: kept(rows.events),
      deltas: kept(rows.deltas),
      aliases: kept(rows.aliases),
      state: rows.state.filter(({ owner }) => isIn(owner)),
    };
  };
  return { rows: only('rows'), branches: only('branches'), children: only('children') };
}

function groupOf({ parent_id, depth }: ChatRow): keyof Groups {
  if (parent_id === null) return 'rows';
  return depth > 0 ? 'children' : 'branches';
}

/** The evidence with the rows of children among those of the users' sessions. */
export function withChildren(evidence: Evidence): Evidence {
  const { children } = evidence;
  const rows = (Object.keys(children) as (keyof Rows)[]).map((name) => [name, [...evidence[name], ...children[name]]]);
  return { ...evidence, ...(Object.fromEntries(rows) as unknown as Rows) };
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
