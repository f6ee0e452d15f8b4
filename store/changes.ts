import { z } from 'zod';
import { type Db, many } from './db.ts';

const changeRow = z.object({
  session_id: z.string(),
  state: z.string(),
  stream: z.string(),
  run: z.number().nullable(),
});

/**
 * An opaque version of a session's rows. `state` differs after any change of the session or its runs, `stream` when the
 * answer of the running run `run` has grown.
 */
export type SessionVersion = Omit<z.output<typeof changeRow>, 'session_id'>;

/** Returns those of the given sessions that differ from the version that the caller knows, with their new version. */
export async function changedSessions(
  db: Db,
  known: readonly (readonly [sessionId: string, version: SessionVersion | undefined])[],
): Promise<{ sessionId: string; version: SessionVersion }[]> {
  const rows = await many(db, changeRow, 'SELECT session_id, state, stream, run FROM changed_sessions($1, $2, $3)', [
    known.map(([id]) => id),
    known.map(([, version]) => version?.state ?? ''),
    known.map(([, v]) => v?.stream ?? ''),
  ]);
  return rows.map(({ session_id, ...version }) => ({ sessionId: session_id, version }));
}
