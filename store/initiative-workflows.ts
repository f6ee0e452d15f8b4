import { z } from 'zod';
import { statusesOf } from '../domain/initiatives/machines.ts';
import { argumentsDigest } from './arguments-digest.ts';
import { call, type Db, jsonb, maybe } from './db.ts';

const mark = z.object({
  user_id: z.string(),
  project_id: z.string().nullable(),
  status: z.enum(statusesOf('initiative')),
  event_seq: z.number(),
  watched: z
    .object({ work_session: z.string(), sign: z.string(), due_at: z.number(), due_in_ms: z.number() })
    .nullable(),
});

/** Without texts: they must not reach Temporal. */
const outcome = z.object({
  ok: z.boolean(),
  code: z.string().optional(),
  id: z.string().optional(),
  task_id: z.string().nullish(),
  decision_id: z.string().optional(),
  mark,
});

/** When a work session is ended: that long after it was given a task that it holds, and after its last sign of life, in milliseconds. */
export interface Staleness {
  staleAssignmentMs: number;
  staleProgressMs: number;
}

const timesOf = ({ staleAssignmentMs, staleProgressMs }: Staleness) => [staleAssignmentMs, staleProgressMs];

/** What a workflow knows of its initiative; undefined: there is none. */
export function readInitiativeMark(db: Db, initiativeId: string, staleness: Staleness) {
  return call(db, maybe(mark), 'initiative_mark', [initiativeId, ...timesOf(staleness)]);
}

/**
 * The outcome of a recorded command, and the mark after it; undefined: there is no such initiative.
 * @param command.args ids, with which a command that is not recorded is carried out, and which must be those of a recorded one; null:
 *   one that is not recorded is refused
 */
export function applyForWorkflow(
  db: Db,
  initiativeId: string,
  command: { name: string; id: string; args: object | null },
  staleness: Staleness,
) {
  const { name, id, args } = command;
  const digest = args === null ? null : argumentsDigest(args);
  const values = [initiativeId, name, jsonb(args), id, ...timesOf(staleness), digest];
  return call(db, maybe(outcome), 'apply_for_workflow', values);
}

/** Ends a work session, as crashed if it holds tasks, unless it has given a newer sign of life; undefined: there is no such initiative. */
export function resetStale(
  db: Db,
  initiativeId: string,
  watched: { work_session: string; sign: string },
  staleness: Staleness,
) {
  const values = [initiativeId, watched.work_session, watched.sign, ...timesOf(staleness)];
  return call(db, maybe(mark), 'reset_stale', values);
}

const stale = z.object({
  initiative_id: z.string(),
  user_id: z.string(),
  project_id: z.string().nullable(),
  status: z.enum(statusesOf('initiative')),
});

/** An initiative whose workflow is to be woken. */
export type StaleInitiative = z.output<typeof stale>;

const changed = stale.extend({ check: z.string() });

/** An initiative whose status in Temporal is to be compared with this one; `check` changes with the status. */
export type ChangedInitiative = z.output<typeof changed>;

/** Claims, for ten seconds, initiatives whose status changed at least two seconds ago and has not been found in Temporal since. */
export function claimChangedInitiatives(db: Db, limit: number): Promise<ChangedInitiative[]> {
  return call(db, z.array(changed), 'claim_changed_initiatives', [limit]);
}

/** Notes that Temporal shows the status of initiatives: not of those whose status has changed since, or that are in use. */
export async function endInitiativeChecks(db: Db, shown: readonly ChangedInitiative[]): Promise<void> {
  const checks = shown.map(({ initiative_id, check }) => ({ initiative_id, check }));
  await call(db, z.unknown(), 'end_initiative_checks', [jsonb(checks)]);
}

/** Claims initiatives with a work session that their workflow should have ended two seconds ago, for ten seconds. */
export function claimStaleInitiatives(db: Db, staleness: Staleness, limit: number): Promise<StaleInitiative[]> {
  return call(db, z.array(stale), 'claim_stale_initiatives', [...timesOf(staleness), limit]);
}
