// An initiative that is changed directly through the SQL functions.
import type pg from 'pg';
import { newId } from '../../domain/ids.ts';
import {
  applyInitiativeCommand,
  createInitiative,
  type InitiativeOutcome,
  readInitiative,
  takeTask,
} from '../../store/initiatives.ts';
import type { InitiativeView } from '../../wire/initiative-views.ts';
import { type Session, untilBlocked } from './session.ts';

/** Phases as lists of plans, plans as lists of tasks, each with its wave, or 1. */
export type Layout = readonly (readonly (readonly (string | readonly [string, number])[])[])[];

export class Initiative {
  readonly db: pg.Pool;
  readonly id: string;
  readonly user: string;
  readonly tasks = new Map<string, string>();

  private constructor(db: pg.Pool, user: string) {
    this.db = db;
    this.user = user;
    this.id = newId('ini');
  }

  static async of(
    layout: Layout,
    db: pg.Pool,
    { user = 'ada', ...more }: Record<string, unknown> & { user?: string } = {},
  ) {
    const made = new Initiative(db, user);
    const input = {
      title: 'An initiative',
      ...more,
      phases: layout.map((plans, p) => ({
        name: `phase ${p + 1}`,
        plans: plans.map((tasks, l) => ({
          name: `plan ${l + 1}`,
          tasks: tasks.map((task) => {
            const [name, wave] = typeof task === 'string' ? [task, 1] : task;
            const task_id = newId('tsk');
            made.tasks.set(name, task_id);
            return { task_id, name, wave };
          }),
        })),
      })),
    };
    await createInitiative(db, made.target(newId('cmd')), input, null);
    return made;
  }

  private target(commandId: string, userId = this.user) {
    return { initiativeId: this.id, userId, commandId };
  }

  /** Carries out a command; names of tasks stand for their ids. */
  apply(
    command: string,
    args: Record<string, unknown> = {},
    commandId = newId('cmd'),
    user = this.user,
  ): Promise<InitiativeOutcome> {
    const idOf = (name: unknown) => this.tasks.get(name as string) ?? name;
    const { task, blocked_tasks: blocked, workaround_tasks: added, ...rest } = args;
    const given = {
      ...rest,
      ...(task !== undefined && { task_id: idOf(task) }),
      ...(blocked !== undefined && { blocked_tasks: (blocked as string[]).map(idOf) }),
      ...(command === 'add_decision' && { decision_id: newId('dec') }),
      ...(added !== undefined && {
        workaround_tasks: (added as string[]).map((name) => {
          const task_id = newId('tsk');
          this.tasks.set(name, task_id);
          return { task_id, name };
        }),
      }),
    };
    return applyInitiativeCommand(this.db, this.target(commandId, user), { command, args: given });
  }

  /** The id of a new work session. */
  async session(more: object = {}): Promise<string> {
    return (await this.apply('start_session', { agent: 'worker', ...more })).id ?? '';
  }

  /** The name of a task that a work session is given; undefined: none. */
  async next(work_session: string): Promise<string | undefined> {
    const { task_id } = await this.apply('assign_task', { work_session });
    return [...this.tasks].find(([, id]) => id === task_id)?.[0];
  }

  /** As the tools `task_next` and `task_start` of a chat session do. */
  take(
    chat: Pick<Session, 'id'>,
    command: 'assign_task' | 'start_task' = 'assign_task',
    args: object = { unstarted: true },
    commandId = newId('cmd'),
  ): Promise<InitiativeOutcome> {
    const by = { agent: 'worker', sessionId: chat.id };
    return takeTask(this.db, this.target(commandId), by, { command, args: { ...args } });
  }

  /** Lets calls wait for the lock of the initiative, one after the other, and then carries them out at once. */
  async whileLocked<T extends readonly (() => Promise<unknown>)[]>(
    ...calls: T
  ): Promise<{ [K in keyof T]: Awaited<ReturnType<T[K]>> }> {
    const gate = await this.db.connect();
    const begun: Promise<unknown>[] = [];
    try {
      await gate.query('BEGIN');
      await gate.query('SELECT pg_advisory_xact_lock(initiative_lock($1))', [this.id]);
      for (const start of calls) {
        begun.push(start());
        await untilBlocked(this.db, begun.length);
      }
      await gate.query('COMMIT');
    } finally {
      gate.release();
    }
    return (await Promise.all(begun)) as { [K in keyof T]: Awaited<ReturnType<T[K]>> };
  }

  /** Starts and completes a task. */
  async complete(task: string, work_session: string, note?: string): Promise<InitiativeOutcome> {
    const started = await this.apply('start_task', { task, work_session });
    return started.ok ? this.apply('complete_task', { task, work_session, note }) : started;
  }

  async view(): Promise<InitiativeView> {
    const found = await readInitiative(this.db, this.user, this.id);
    if (found === undefined) throw new Error('the initiative is gone');
    return found;
  }

  /** The newest event: its kind, and which statuses of phases, by their numbers, and of the initiative it says have changed. */
  async changed(): Promise<{ kind: string; phases?: Record<string, string>; status?: string }> {
    const { rows } = await this.db.query<{ changed: { kind: string } }>(
      `SELECT jsonb_strip_nulls(jsonb_build_object('kind', kind, 'phases', data -> 'phases', 'status', data -> 'status')) AS changed
         FROM initiative_events WHERE initiative_id = $1 ORDER BY seq DESC LIMIT 1`,
      [this.id],
    );
    return rows[0]!.changed;
  }

  /** Status of each task by name, of each phase, of the initiative, and the position as `task status`. */
  async statuses() {
    const { initiative, state, phases } = await this.view();
    const tasks = phases.flatMap((phase) => phase.plans.flatMap((plan) => plan.tasks));
    return {
      initiative: initiative.status,
      phases: phases.map((phase) => phase.status),
      tasks: Object.fromEntries(tasks.map((task) => [task.name, task.status])),
      position: `${state.position.task} ${state.position.status}`,
    };
  }
}
