// A session for tests of the worker, which use rows and updates without the client.
import type { Client } from '@temporalio/client';
import type { SignalDefinition, UpdateDefinition } from '@temporalio/common';
import type pg from 'pg';
import { sendUpdate } from '../../client/send/send-update.ts';
import type { CommandArgs, SessionMark } from '../../domain/command-table.ts';
import { newId } from '../../domain/ids.ts';
import { DEFAULT_TASK_QUEUE } from '../../domain/task-queue.ts';
import { SESSION_WORKFLOW, submitUpdate } from '../../workflows/definitions.ts';
import { eventually } from './eventually.ts';
import { patient } from './patient.ts';

/** As long as a test may take. */
const UPDATE_MS = patient(120_000);

/** The servers of a session. */
export interface Servers {
  db: pg.Pool;
  temporal: Client;
}

/** The columns of a run that tests use. */
export interface RunRow {
  seq: number;
  message_id: string;
  answer_id: string;
  state: string;
  step: number;
  fence: number[];
  head_start_at: Date | number | null;
  error_code: string | null;
  error_message: string | null;
}

/** The columns of a session that tests use. */
export interface SessionRow {
  phase: string;
  project_id: string | null;
  pending_tool: { tool_call_id: string } | null;
  cancel_token: string | null;
}

/** What an edit and a new answer return. */
interface Replaced {
  ok: boolean;
  code?: string;
  run_seq: number;
  message_id: string;
  aborted_run: number | null;
}

/** One session of one user. */
export class TestSession {
  readonly id: string;
  readonly user: string;
  readonly agent: string;
  private readonly servers: Servers;

  private constructor(servers: Servers, id: string, user: string, agent: string) {
    this.servers = servers;
    this.id = id;
    this.user = user;
    this.agent = agent;
  }

  static async open(
    servers: Servers,
    { user = 'ada', agent = 'site-builder' }: { user?: string; agent?: string } = {},
  ): Promise<TestSession> {
    const session = new TestSession(servers, newId('ses'), user, agent);
    await servers.db.query('SELECT open_session($1, $2, $3, NULL, NULL, $4, NULL)', [session.id, user, agent, '{}']);
    return session;
  }

  /** An existing session. */
  static of(servers: Servers, id: string, user = 'ada'): TestSession {
    return new TestSession(servers, id, user, 'site-builder');
  }

  /** The same session through other connections, like another tab. */
  through(servers: Servers): TestSession {
    return new TestSession(servers, this.id, this.user, this.agent);
  }

  /** Accepts a message in the database only. Returns the run's number. */
  async accept(
    text: string,
    id: string = newId('msg'),
    model: string | null = null,
    files: readonly { type: 'file' }[] = [],
  ): Promise<{ run: number; message: string }> {
    const parts = [{ type: 'text', text }, ...files].map((data) => ({ id: newId('prt'), type: data.type, data }));
    const { rows } = await this.servers.db.query<{ r: { ok: boolean; run_seq: number; code?: string } }>(
      'SELECT accept_message($1, $2, $3, $4, $5, $6, $7, 1000) AS r',
      [this.id, this.user, id, newId('msg'), JSON.stringify(parts), '{}', model],
    );
    const outcome = rows[0]!.r;
    if (!outcome.ok) throw new Error(`not accepted: ${outcome.code}`);
    return { run: outcome.run_seq, message: id };
  }

  /** Sends a message: accepts it in the database, then wakes the workflow. Returns the run's number. */
  async send(text: string, id?: string): Promise<number> {
    const { run, message } = await this.accept(text, id);
    await this.wake(run, message);
    return run;
  }

  /** Replaces a message by another one, as the client does. Returns the run's number. */
  edit(edited: string, text: string): Promise<number> {
    const message = newId('msg');
    const parts = [{ id: newId('prt'), type: 'text', data: { type: 'text', text } }];
    const args = [this.id, this.user, edited, message, newId('msg'), JSON.stringify(parts), '{}'];
    return this.replaced('SELECT edit_message($1, $2, $3, $4, $5, $6, $7, NULL, 1000) AS r', args);
  }

  /** Asks for a new answer to a message, as the client does. Returns the run's number. */
  regenerate(message: string): Promise<number> {
    const args = [this.id, this.user, message, newId('msg')];
    return this.replaced('SELECT regenerate_answer($1, $2, $3, NULL, $4, NULL) AS r', args);
  }

  /** Replaces a message or an answer, and wakes the workflow. */
  private async replaced(sql: string, args: readonly string[]): Promise<number> {
    const { rows } = await this.servers.db.query<{ r: Replaced }>(sql, [...args]);
    const { ok, code, run_seq: run, message_id: message, aborted_run: aborted } = rows[0]!.r;
    if (!ok) throw new Error(`not accepted: ${code}`);
    await this.wake(run, message, aborted);
    return run;
  }

  /** Wakes the workflow for a run, and starts it if necessary. */
  wake(run: number, message: string, aborted: number | null = null, mark?: SessionMark): Promise<{ position: number }> {
    const told = { ...(aborted !== null && { aborted_run: aborted }), ...(mark && { mark }) };
    const args = { run_seq: run, message_id: message, model: null, ...told };
    return this.update(submitUpdate, args, `submit:${message}:${run}`);
  }

  /** Sends a command as the client does. */
  command<Outcome, Args extends CommandArgs>(
    definition: UpdateDefinition<Outcome, [Args]>,
    args: Omit<Args, 'command_id'> & { command_id?: string } = {} as Args,
  ): Promise<Outcome> {
    const complete = { command_id: newId('cmd'), ...args } as unknown as Args;
    return this.update(definition, complete, `${definition.name}:${complete.command_id}`);
  }

  /** Sends a raw signal, as Temporal's tools do, and starts the session's workflow if necessary. */
  async signalWithStart<Args extends unknown[]>(signal: SignalDefinition<Args>, ...args: Args): Promise<void> {
    const signalArgs: unknown[] = args;
    await this.servers.temporal.workflow.signalWithStart(SESSION_WORKFLOW, {
      workflowId: this.id,
      taskQueue: DEFAULT_TASK_QUEUE,
      args: [this.id],
      signal: signal.name,
      signalArgs,
    });
  }

  private update<Outcome, Args extends object>(
    name: UpdateDefinition<Outcome, [Args]>,
    args: Args,
    id: string,
  ): Promise<Outcome> {
    const { id: session_id, user: user_id, agent } = this;
    const target = { session_id, user_id, agent, phase: 'chatting', project_id: null } as const;
    const { temporal } = this.servers;
    const workflows = { temporal, taskQueue: DEFAULT_TASK_QUEUE, showUser: (user: string) => user };
    return sendUpdate(workflows, target, { name, id, args, deadlineMs: UPDATE_MS });
  }

  get handle() {
    return this.servers.temporal.workflow.getHandle(this.id);
  }

  async run(seq: number): Promise<RunRow> {
    const { rows } = await this.servers.db.query<RunRow>('SELECT * FROM chat_runs WHERE session_id = $1 AND seq = $2', [
      this.id,
      seq,
    ]);
    return rows[0]!;
  }

  /** The run's row, once the run has ended. */
  ended(seq: number, timeout = 40_000): Promise<RunRow> {
    return eventually(
      async () => {
        const run = await this.run(seq);
        if (['queued', 'running', 'waiting'].includes(run.state)) throw new Error(`run ${seq} is ${run.state}`);
        return run;
      },
      { timeout },
    );
  }

  /** The parts of a message, with the text that is still streaming. */
  async parts(messageId: string): Promise<(Record<string, unknown> & { type: string })[]> {
    const { rows } = await this.servers.db.query<{ data: Record<string, unknown> & { type: string } }>(
      'SELECT data FROM chat_parts_live WHERE session_id = $1 AND message_id = $2 ORDER BY index',
      [this.id, messageId],
    );
    return rows.map((row) => row.data);
  }

  async row(): Promise<SessionRow> {
    const { rows } = await this.servers.db.query<SessionRow>('SELECT * FROM sessions WHERE session_id = $1', [this.id]);
    return rows[0]!;
  }
}
