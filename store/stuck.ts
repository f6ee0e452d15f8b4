import { z } from 'zod';
import { call, type Db, many } from './db.ts';

const stuckWorkflow = z.object({ id: z.string(), kind: z.enum(['session', 'initiative']) });

/** A session or an initiative whose workflow the deployed code cannot continue. */
export type StuckWorkflow = z.output<typeof stuckWorkflow>;

/** Records why a workflow cannot continue, or with null that it does again. False: nothing changed. */
export function noteStuck(db: Db, { id, kind }: StuckWorkflow, cause: string | null): Promise<boolean> {
  return call(db, z.boolean(), kind === 'session' ? 'note_stuck' : 'note_stuck_initiative', [id, cause]);
}

const known = (kind: StuckWorkflow['kind'], table: string) => {
  const stuck = `SELECT ${kind}_id AS id, '${kind}' AS kind FROM ${table} WHERE stuck_at IS NOT NULL AND ${kind}_id`;
  return `${stuck} = ANY ($1) UNION ALL (${stuck} <> ALL ($1) ORDER BY ${kind}_id LIMIT $2)`;
};
const KNOWN = `${known('session', 'chat_sessions')} UNION ALL ${known('initiative', 'initiatives')}`;

/** The workflows recorded as stuck: those of `ids`, and of each kind up to `limit` others. */
export function stuckWorkflows(db: Db, ids: readonly string[], limit: number): Promise<StuckWorkflow[]> {
  return many(db, stuckWorkflow, KNOWN, [ids, limit]);
}
