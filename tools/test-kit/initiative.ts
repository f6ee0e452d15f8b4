// An initiative for tests of its workflow, changed through the client.
import { createClient, type PerdureClient } from '../../client/client.ts';
import type { Db } from '../../store/db.ts';
import { afterFile } from './after-file.ts';
import type { TestRuntime } from './runtime.ts';

/** A client of a running system, which ends after the file. */
export function clientOf({ databaseUrl, temporal, workspaces }: TestRuntime): PerdureClient {
  const models = { find: () => undefined, list: () => [], offered: () => [], ofAgent: () => 'openai/test' };
  const catalog = { agents: ['site-builder'], defaultAgent: 'site-builder', models, workspaces };
  const client = createClient({ database: databaseUrl, temporal, catalog });
  afterFile(() => client.end());
  return client;
}

/** Moves what has happened to an initiative's tasks, and the signs of life of its work sessions, into the past. */
export async function age(db: Db, initiative: string, by: string): Promise<void> {
  await db.query(
    `WITH tasks AS (
       UPDATE initiative_tasks SET assigned_at = assigned_at - $2::interval, last_progress_at = last_progress_at - $2::interval
        WHERE initiative_id = $1)
     UPDATE session_history SET last_sign_at = last_sign_at - $2::interval WHERE initiative_id = $1`,
    [initiative, by],
  );
}

/** The body of an initiative's creation: phases of one plan each, given as the names of their tasks. */
export function planned(phases: readonly (readonly string[])[], title = 'An initiative') {
  return {
    title,
    phases: phases.map((tasks, at) => ({
      name: `phase ${at + 1}`,
      plans: [{ name: 'plan', tasks: tasks.map((name) => ({ name })) }],
    })),
  };
}
