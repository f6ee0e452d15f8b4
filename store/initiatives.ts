import { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import {
  blockerAnswer,
  decisionAnswer,
  initiativeChange,
  initiativeItem,
  initiativeTask,
  type InitiativeView,
  initiativeView,
  workSessionAnswer,
} from '../wire/initiative-views.ts';
import { keyReused } from '../wire/input.ts';
import { call, column, type Db, jsonb, maybe } from './db.ts';

/** What a command of an initiative returned: ids; or why it was refused. */
const outcome = z.looseObject({
  ok: z.boolean(),
  /** There was nothing to do. */
  nothing: z.literal(true).optional(),
  code: z.string().optional(),
  /** Of an edit: the index of the refused update. */
  n: z.number().optional(),
  id: z.string().optional(),
  task_id: z.string().nullish(),
  decision_id: z.string().optional(),
  /** Of `takeTask`. */
  work_session: z.string().nullish(),
});
export type InitiativeOutcome = z.output<typeof outcome>;

/** A command: its name in snake case, and its arguments. */
export interface InitiativeUpdate {
  command: string;
  args: Readonly<Record<string, unknown>>;
}

interface Target {
  initiativeId: string;
  userId: string;
  commandId: string;
  /** Of what the caller gave: under the same key, another one is `KeyReused`. Unset: the key alone tells a repeat. */
  digest?: Buffer | undefined;
}

/** Carries out a command, once per command id. */
export function applyInitiativeCommand(
  db: Db,
  { initiativeId, userId, commandId, digest }: Target,
  { command, args }: InitiativeUpdate,
): Promise<InitiativeOutcome> {
  const values = [initiativeId, userId, command, jsonb(args), 'user', commandId, digest ?? null];
  return call(db, outcome, 'apply_initiative_command', values);
}

/**
 * Assigns or starts a task as the work session of a chat session, which begins with it unless one is active; once per command id.
 * @param command without the work session, which the outcome has
 */
export function takeTask(
  db: Db,
  { initiativeId, userId, commandId }: Target,
  { agent, sessionId }: { agent: string; sessionId: string },
  { command, args }: InitiativeUpdate,
): Promise<InitiativeOutcome> {
  return call(db, outcome, 'take_task', [initiativeId, userId, agent, sessionId, command, jsonb(args), commandId]);
}

/** Carries out updates, all or none, if the initiative still has the version. */
export function applyInitiativeEdit(
  db: Db,
  { initiativeId, userId, commandId }: Target,
  version: number,
  updates: readonly InitiativeUpdate[],
): Promise<InitiativeOutcome> {
  const values = [initiativeId, userId, version, jsonb(updates), 'user', commandId];
  return call(db, outcome, 'apply_initiative_edit', values);
}

/** A user's initiative with all that belongs to it, as of one moment; undefined: there is none. */
export function readInitiative(db: Db, userId: string, initiativeId: string): Promise<InitiativeView | undefined> {
  return call(db, maybe(initiativeView), 'read_initiative', [initiativeId, userId]);
}

const created = z.union([
  z.object({ initiative_id: z.string() }),
  z.object({ code: z.enum(['ProjectNotFound', 'KeyReused']) }),
]);

/**
 * Creates an initiative.
 * @param key the caller's own key: a repeat returns the first creation
 * @throws {PerdureError} `ProjectNotFound`: the project belongs to another user; `KeyReused`
 * @returns its id
 */
export function createInitiative(db: Db, target: Target, input: object, key: string | null): Promise<string> {
  return make(db, 'create_initiative', target, input, key);
}

/** Stores an import of `.planning/` as a new initiative; as `createInitiative`. */
export function importInitiative(db: Db, target: Target, input: object, key: string | null): Promise<string> {
  return make(db, 'import_initiative', target, input, key);
}

async function make(
  db: Db,
  name: 'create_initiative' | 'import_initiative',
  { initiativeId, userId, commandId, digest }: Target,
  input: object,
  key: string | null,
): Promise<string> {
  const values = [initiativeId, userId, jsonb(input), key, commandId, digest ?? null];
  const made = await call(db, created, name, values);
  if (!('code' in made)) return made.initiative_id;
  throw made.code === 'KeyReused' ? keyReused() : new PerdureError(made.code, 'there is no such project');
}

const changes = initiativeItem.extend({ newest: z.number(), changes: z.array(initiativeChange) });

/** What has changed of an initiative. */
export type InitiativeChanges = z.output<typeof changes>;

/**
 * An initiative with its state and its changes after a number, at most `limit`; undefined: the user has no such initiative.
 * @param after null: no changes
 */
export function readInitiativeChanges(
  db: Db,
  { userId, initiativeId }: Pick<Target, 'userId' | 'initiativeId'>,
  after: number | null,
  limit: number,
): Promise<InitiativeChanges | undefined> {
  return call(db, maybe(changes), 'read_initiative_changes', [initiativeId, userId, after, limit]);
}

/** A page of a user's initiatives, newest first. */
export function listInitiatives(db: Db, userId: string, after: string | null, limit: number) {
  return call(db, z.array(initiativeItem), 'list_initiatives', [userId, after, limit]);
}

/** A user's initiative without what belongs to it; undefined: there is none. */
export async function readInitiativeItem(
  db: Db,
  userId: string,
  initiativeId: string,
): Promise<z.output<typeof initiativeItem> | undefined> {
  const sql = `SELECT jsonb_build_object('initiative', show_initiative(found), 'state', show_state(initiative_id)) AS value
                 FROM initiatives found WHERE initiative_id = $1 AND user_id = $2`;
  return (await column(db, initiativeItem, sql, [initiativeId, userId]))[0];
}

/** Whether a user has an initiative. */
export async function ownsInitiative(db: Db, userId: string, initiativeId: string): Promise<boolean> {
  const sql = 'SELECT true AS value FROM initiatives WHERE initiative_id = $1 AND user_id = $2';
  return (await column(db, z.boolean(), sql, [initiativeId, userId])).length > 0;
}

const brief = z.object({
  title: z.string(),
  status: z.string(),
  next_action: z.string(),
  review: z.boolean(),
  position: z.object({
    ...{ phase: z.number(), phase_name: z.string(), plan: z.number(), plan_name: z.string() },
    ...{ task: z.string(), status: z.string() },
  }),
  decisions: z.object({
    count: z.number(),
    items: z.array(z.object({ date: z.string(), context: z.string(), decision: z.string(), reason: z.string() })),
  }),
  blockers: z.object({ count: z.number(), items: z.array(z.object({ id: z.string(), description: z.string() })) }),
});

/** What a prompt says about a user's initiative; undefined: there is none. */
export function readInitiativeBrief(db: Db, { userId, initiativeId }: Pick<Target, 'userId' | 'initiativeId'>) {
  return call(db, maybe(brief), 'initiative_brief', [initiativeId, userId]);
}

type ChatTarget = Pick<Target, 'userId' | 'initiativeId'> & { sessionId: string };

const newest = z.object({
  id: z.string(),
  is_active: z.boolean(),
  /** 0 to 1; null: not noted. */
  context_usage: z.number().nullable(),
  /** It was ended because its context was full. */
  is_full: z.boolean(),
  /** What was noted last of the one before it. */
  usage_before: z.number().nullable(),
});

export type NewestWorkSession = z.output<typeof newest>;

/** The work session that a chat session has, or had last; undefined: it had none. */
export function newestWorkSession(db: Db, { userId, initiativeId, sessionId }: ChatTarget) {
  return call(db, maybe(newest), 'newest_work_session', [initiativeId, userId, sessionId]);
}

/** Joins a chat session to an initiative of its user, unless it has joined one. */
export async function joinInitiative(db: Db, { userId, initiativeId, sessionId }: ChatTarget): Promise<void> {
  await db.query('SELECT join_initiative($1, $2, $3)', [sessionId, userId, initiativeId]);
}

/**
 * Notes how much of its context the work session of a chat session uses, 0 to 1; `isFull` ends it. False: it has none.
 */
export function noteContext(
  db: Db,
  { userId, initiativeId, sessionId }: ChatTarget,
  { usage, isFull }: { usage: number; isFull: boolean },
): Promise<boolean> {
  return call(db, z.boolean(), 'note_context', [initiativeId, userId, sessionId, usage, isFull]);
}

/** Reads one row of an initiative by its id; undefined: there is none. */
function reader<T>(row: z.ZodType<T>, shown: string, table: string, key: string) {
  const sql = `SELECT ${shown}(found) AS value FROM ${table} found WHERE initiative_id = $1 AND ${key} = $2`;
  return async (db: Db, initiativeId: string, id: string): Promise<T | undefined> =>
    (await column(db, row, sql, [initiativeId, id]))[0];
}

export const readTask = reader(initiativeTask, 'show_task', 'initiative_tasks', 'task_id');
export const readDecision = reader(
  decisionAnswer.shape.decision,
  'show_decision',
  'initiative_decisions',
  'decision_id',
);
export const readBlocker = reader(blockerAnswer.shape.blocker, 'show_blocker', 'initiative_blockers', 'id');
export const readWorkSession = reader(workSessionAnswer.shape.session, 'show_work_session', 'session_history', 'id');
