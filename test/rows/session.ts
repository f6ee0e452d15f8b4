// A session that users and a worker change directly through the SQL functions, without store and workflow.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { z } from 'zod';
import { newId } from '../../domain/ids.ts';
import type { PartWrite } from '../../domain/part-data.ts';
import { nextPhase, type Phase, type PhaseEvent } from '../../domain/phases.ts';
import type { Fence } from '../../domain/runs.ts';
import * as store from '../../store/db.ts';
import { noteRetry } from '../../store/runs.ts';
import { appendStreams, streamBatch, type StreamWrite } from '../../store/streams.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { raiseEvent } from '../faults/rows.ts';

/** The result of an SQL function. */
export type Answer = Record<string, unknown>;
export type Row = Record<string, unknown>;

/** The events that lead from chatting to a phase. */
const PATH: Readonly<Record<Phase, readonly PhaseEvent[]>> = {
  chatting: [],
  building: ['start_build'],
  verifying: ['start_build', 'todo_done_build'],
  done: ['start_build', 'todo_done_build', 'publish'],
};

const NO_USAGE = { input: 0, output: 0, reasoning: 0, cache_read: 0, cache_write: 0 };

/** Connections to a database of its own. */
export async function freshRows({ max = 10 }: { max?: number } = {}): Promise<pg.Pool> {
  const db = patientPool(await freshDatabase(), { max });
  afterFile(() => db.end());
  return db;
}

/**
 * The same for tests that fill tables and count what is read. Statements have the time that a busy machine needs for them. There is
 * no autovacuum: an automatic ANALYZE causes new plans, and its snapshot keeps what updates have left behind.
 */
export async function measuredRows(): Promise<pg.Pool> {
  const db = patientPool(`${await freshDatabase()}?statement_timeout=600000&query_timeout=610000`);
  afterFile(() => db.end());
  const tables = await rows(db, `SELECT format('%I', tablename) AS name FROM pg_tables WHERE schemaname = 'public'`);
  for (const { name } of tables) await db.query(`ALTER TABLE ${String(name)} SET (autovacuum_enabled = false)`);
  return db;
}

/** Calls an SQL function and returns its value unparsed. */
export function call<T>(db: store.Db, name: string, args: readonly unknown[]): Promise<T> {
  return store.call(db, z.custom<T>(), name, args);
}

export async function rows(db: pg.Pool | pg.ClientBase, sql: string, params: unknown[] = []): Promise<Row[]> {
  return (await db.query<Row>(sql, params)).rows;
}

/** The SQLSTATE of a refused statement, or `ok`. */
export async function refusal(statement: Promise<unknown>): Promise<string> {
  try {
    await statement;
    return 'ok';
  } catch (error) {
    return (error as pg.DatabaseError).code ?? String(error);
  }
}

/** Waits until a statement in this database, or so many, wait for locks. */
export async function untilBlocked(db: pg.Pool, count = 1): Promise<void> {
  const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  while ((await rows(db, waiting)).length < count) await delay(5);
}

export interface Again {
  replaced?: string | null;
  user?: string;
  model?: string | null;
  variant?: string | null;
}

interface Said {
  id?: string;
  user?: string;
  model?: string | null;
  maxQueue?: number;
  metadata?: object;
  parts?: readonly object[];
}

/** A part of an answer, as append_stream and settle_step accept it. */
export interface Part {
  id: string;
  index: number;
  type: string;
  data: object;
  tool_call_id?: string;
  tool_state?: string;
  settled?: boolean;
}

export interface Delta {
  part_id: string;
  start: number;
  text: string;
}

export interface Settlement {
  step?: number;
  parts?: readonly Part[];
  nextIndex?: number;
  usage?: object;
  /** Without cache reads. */
  tokens?: number;
  cost?: number | null;
  toolCalls?: readonly object[];
  end?: boolean;
  failure?: { code: string; message: string; toolError: string };
  /** See note_work(). */
  work?: object;
}

export class Session {
  readonly db: pg.Pool | pg.ClientBase;
  readonly id: string;
  readonly user: string;

  constructor(db: pg.Pool | pg.ClientBase, id: string = newId('ses'), user = 'ada') {
    this.db = db;
    this.id = id;
    this.user = user;
  }

  /** A new session, moved to a phase by events. */
  static async at(
    phase: Phase,
    db: pg.Pool | pg.ClientBase,
    { user = 'ada', project }: { user?: string; project?: string } = {},
  ) {
    const session = new Session(db, newId('ses'), user);
    await call(db, 'open_session', [session.id, user, 'site-builder', null, null, '{}', project ?? null]);
    for (const event of PATH[phase]) await session.raise(event);
    return session;
  }

  /** A new session with these messages, each with its text as its id. */
  static async saying(db: pg.Pool | pg.ClientBase, ...texts: string[]): Promise<Session> {
    const session = await Session.at('chatting', db);
    for (const text of texts) await session.say(text, { id: text });
    return session;
  }

  /** The same session over another connection. */
  through(db: pg.Pool | pg.ClientBase): Session {
    return new Session(db, this.id, this.user);
  }

  say(
    text: string,
    { id = newId('msg'), user = this.user, model = null, maxQueue = 1000, metadata = {}, parts }: Said = {},
  ) {
    const given = parts ?? [{ id: newId('prt'), type: 'text', data: { type: 'text', text } }];
    const args = [this.id, user, id, newId('msg'), JSON.stringify(given), JSON.stringify(metadata), model, maxQueue];
    return call<Answer>(this.db, 'accept_message', args);
  }

  raise(event: PhaseEvent, command = newId('cmd')) {
    return raiseEvent(this.db, this.id, event, { command });
  }

  openExisting(project: string, command = newId('cmd')) {
    return this.apply('open_existing', { project_id: project }, command);
  }

  cancel(command = newId('cmd')) {
    return this.apply('cancel', {}, command);
  }

  abort(command = newId('cmd')) {
    return this.apply('abort', {}, command);
  }

  /** What a command to stop that is accepted now means. */
  stopMeant(message: string | null = null) {
    return call<Answer>(this.db, 'stop_meant', [this.id, message]);
  }

  cancelQueued(message: string, command = newId('cmd')) {
    return this.apply('cancel_queued', { message_id: message }, command);
  }

  close(abort = false, command = newId('cmd')) {
    return this.apply('close', { abort }, command);
  }

  rewind(message: string, { abort = false, command = newId('cmd') } = {}) {
    return this.apply('rewind', { message_id: message, abort }, command);
  }

  unrewind(command = newId('cmd')) {
    return this.apply('unrewind', {}, command);
  }

  /** Replaces a message by one with another text. */
  edit(
    edited: string,
    text: string,
    { id = newId('msg'), user = this.user, model = null, maxQueue = 1000 }: Said = {},
  ) {
    const parts = JSON.stringify([{ id: newId('prt'), type: 'text', data: { type: 'text', text } }]);
    const args = [this.id, user, edited, id, newId('msg'), parts, '{}', model, maxQueue];
    return call<Answer>(this.db, 'edit_message', args);
  }

  /** Answers a message again. */
  regenerate(message: string, { replaced = null, user = this.user, model = null, variant = null }: Again = {}) {
    const args = [this.id, user, message, replaced, newId('msg'), model, null, variant];
    return call<Answer>(this.db, 'regenerate_answer', args);
  }

  /** Any command. */
  apply(name: string, args: object, command = newId('cmd'), actor = 'user', digest: Buffer | null = null) {
    return call<Answer>(this.db, 'apply_command', [this.id, name, args, actor, command, digest]);
  }

  /** Loads the session as a new execution of its workflow, which replaces the one before. */
  async load() {
    const [row] = await rows(
      this.db,
      `WITH newest AS MATERIALIZED (SELECT (lock_session($1)).load_execution)
       SELECT load_session($1, $2, 1, 1, coalesce(load_execution, '')) AS loaded FROM newest`,
      [this.id, randomUUID()],
    );
    return row!['loaded'] as Answer & { epoch: number; runs: Answer[] };
  }

  claimWithoutView(run: number, fence: Fence) {
    return call<Answer>(this.db, 'claim_without_view', [this.id, run, 0, fence, null, null]);
  }

  claim(run: number, fence: Fence, step = 0, startedAt: number | null = null) {
    return call<Answer>(this.db, 'claim_step', [this.id, run, step, fence, startedAt, null]);
  }

  append(
    run: number,
    fence: Fence,
    parts: readonly Part[],
    deltas: readonly Delta[] = [],
    metadata: object | null = {},
  ) {
    const made = metadata === null ? null : JSON.stringify(metadata);
    const args = [this.id, run, fence, made, JSON.stringify(parts), JSON.stringify(deltas)];
    return call<'live' | 'abort' | 'lost'>(this.db, 'append_stream', args);
  }

  /** The same batch in a statement for several runs. */
  async appendShared(run: number, fence: Fence, parts: readonly Part[], deltas: readonly Delta[] = []) {
    return (await appendStreams(this.db, [this.batch(run, fence, parts, deltas)]))[0];
  }

  /** A batch for `appendStreams`. */
  batch(run: number, fence: Fence, parts: readonly Part[], deltas: readonly Delta[] = []): StreamWrite {
    const batch = streamBatch({ parts: parts as readonly PartWrite[], deltas }, {});
    return { claim: { sessionId: this.id, runSeq: run, fence }, batch };
  }

  settleStep(run: number, fence: Fence, settlement: Settlement = {}) {
    const {
      step = 0,
      parts = [],
      nextIndex = parts.length,
      usage = NO_USAGE,
      tokens = 1,
      toolCalls = [],
      end = false,
    } = settlement;
    const cost = settlement.cost === undefined ? {} : { cost_usd: settlement.cost };
    const failure = settlement.failure ? { failure: settlement.failure } : {};
    const work = settlement.work ? { work: settlement.work } : {};
    const report = { step, usage, model: 'test/model', finish_reason: 'stop', tokens, ...cost, ...work, ...failure };
    const receipt = { finish_reason: 'stop', model: 'test/model', tokens: 1, tool_calls: toolCalls, end };
    return call<Answer>(this.db, 'settle_step', [
      ...[this.id, run, fence, '{}', JSON.stringify(parts), nextIndex],
      ...[JSON.stringify(report), JSON.stringify(receipt)],
    ]);
  }

  /** Counts an answer that was whole and is no step. */
  discard(run: number, fence: Fence, spent: object) {
    return call<boolean>(this.db, 'log_provider_error', [this.id, run, fence, JSON.stringify({ spent })]);
  }

  settleRun(run: number, state: 'aborted' | 'error', fence: Fence | null = null, answer?: { parts: readonly Part[] }) {
    const why = state === 'error' ? ['RateLimited', 'try again later'] : [null, null];
    const last = answer ? JSON.stringify({ metadata: { model: 'test/model' }, ...answer }) : null;
    return call<Answer>(this.db, 'settle_run', [this.id, run, fence, state, ...why, 'outcome unknown', last]);
  }

  noteRetry(run: number, fence: Fence) {
    const retry = { attempt: 2, reason: 'rate limited', delayMs: 0 };
    return noteRetry(this.db, { sessionId: this.id, runSeq: run, fence }, retry);
  }

  beginTool(run: number, fence: Fence, callId: string, raise: object | null = null) {
    const pending = JSON.stringify(pendingTool(callId));
    const raised = raise && JSON.stringify(raise);
    return call<Answer>(this.db, 'begin_tool', [this.id, run, fence, pending, raised, null]);
  }

  finishTool(run: number, fence: Fence, callId: string, { effects = {}, data = {}, illegal = '%s' }: ToolEnd = {}) {
    const part = { ...toolPart(callId, 0).data, state: 'output-available', output: 'made', ...data };
    return call<Answer>(this.db, 'finish_tool', [
      ...[this.id, run, fence, callId],
      ...[JSON.stringify(part), JSON.stringify(effects), illegal],
    ]);
  }

  /** Answers a run in one step. */
  async answer(run: number, fence: Fence = [0, run, 1]): Promise<void> {
    await this.claim(run, fence);
    await this.settleStep(run, fence, { end: true });
  }

  /** A run whose first step has settled with these tool calls; its fence is that of the step. */
  async runWithCalls(callIds: readonly string[], fence: Fence = [0, 1, 1]): Promise<number> {
    const { run_seq } = (await this.say('build it')) as { run_seq: number };
    await this.claim(run_seq, fence);
    await this.settleStep(run_seq, fence, {
      parts: callIds.map((callId, index) => toolPart(callId, index)),
      toolCalls: callIds.map((callId) => ({ tool_call_id: callId, name: 'build_and_deploy' })),
    });
    return run_seq;
  }

  /** The row of `sessions`. */
  async row(): Promise<Row> {
    return (await rows(this.db, 'SELECT * FROM sessions WHERE session_id = $1', [this.id]))[0]!;
  }

  async phase(): Promise<Phase> {
    return (await this.row())['phase'] as Phase;
  }

  async chat(): Promise<Row> {
    return (await rows(this.db, 'SELECT * FROM chat_sessions WHERE session_id = $1', [this.id]))[0]!;
  }

  messages(): Promise<Row[]> {
    return rows(this.db, 'SELECT * FROM chat_messages WHERE session_id = $1 ORDER BY position', [this.id]);
  }

  runs(): Promise<Row[]> {
    return rows(this.db, 'SELECT * FROM chat_runs WHERE session_id = $1 ORDER BY seq', [this.id]);
  }

  async run(seq: number): Promise<Row> {
    return (await this.runs()).find((run) => run['seq'] === seq)!;
  }

  /** All parts, or those of a run's answer. */
  parts(run?: number): Promise<Row[]> {
    const sql = `SELECT p.* FROM chat_parts p LEFT JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
                  WHERE p.session_id = $1 AND ($2::integer IS NULL OR r.seq = $2) ORDER BY message_id, index`;
    return rows(this.db, sql, [this.id, run ?? null]);
  }

  deltas(): Promise<Row[]> {
    return rows(this.db, 'SELECT * FROM part_deltas WHERE session_id = $1 ORDER BY part_id, start', [this.id]);
  }

  /** The parts' data in order, from the view for SQL readers. */
  async live(): Promise<Row[]> {
    const sql = 'SELECT data FROM chat_parts_live WHERE session_id = $1 ORDER BY message_id, index';
    return (await rows(this.db, sql, [this.id])).map((row) => row['data'] as Row);
  }

  events(): Promise<(Row & { seq: number; kind: string; data: Row })[]> {
    return rows(this.db, 'SELECT * FROM session_events WHERE session_id = $1 ORDER BY seq', [this.id]) as never;
  }

  /** All rows of the session, to show that nothing was written. */
  async everything(): Promise<unknown[]> {
    const state = await rows(this.db, 'SELECT * FROM scoped_state ORDER BY scope, owner, key');
    const projects = await rows(
      this.db,
      'SELECT * FROM projects LEFT JOIN project_todos USING (project_id) ORDER BY 1, name',
    );
    const own = [this.row(), this.chat(), this.messages(), this.runs(), this.parts(), this.deltas(), this.events()];
    return [...(await Promise.all(own)), state, projects];
  }
}

export interface ToolEnd {
  effects?: object;
  data?: object;
  /** The error text of an illegal event; its %s is the phase. */
  illegal?: string;
}

export function pendingTool(callId: string): Row {
  const times = { step: 0, started_at: '2026-01-01T00:00:00.000Z' };
  return { tool_call_id: callId, name: 'build_and_deploy', message_id: newId('msg'), ...times };
}

export function toolPart(callId: string, index: number, state = 'input-available'): Part & { data: Row } {
  const type = 'tool-build_and_deploy';
  const data = { type, toolCallId: callId, state, input: { name: 'site' } };
  return { id: newId('prt'), index, type, data, tool_call_id: callId, tool_state: state, settled: true };
}

export function textPart(index: number, text = '', id = newId('prt')): Part {
  return { id, index, type: 'text', data: { type: 'text', text, state: 'streaming' } };
}

/** The phase according to a session's logged transitions; throws at an illegal one. */
export async function phaseByLog(session: Session): Promise<Phase> {
  let phase: Phase = 'chatting';
  for (const { kind, seq, data } of await session.events()) {
    if (kind !== 'transition') continue;
    const { event, from, to } = data as { event: PhaseEvent; from: Phase; to: Phase };
    if (from !== phase || nextPhase(from, event) !== to) {
      throw new Error(`event ${seq} of ${session.id} says ${event}: ${from} → ${to}, but the phase was ${phase}`);
    }
    phase = to;
  }
  return phase;
}
