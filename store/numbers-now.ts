import { z } from 'zod';
import type { consoleNumbers } from '../wire/numbers.ts';
import { column, type Db, maybeOne } from './db.ts';
import { WORKER_LIVES } from './leases.ts';
import { readOpenWork } from './open-work.ts';

/** What the console's numbers say of now, except for what only a host knows. */
export type Now = Omit<z.output<typeof consoleNumbers>['now'], 'streams'>;

const count = z.number();
const msSince = (time: string) => `extract(epoch FROM clock_timestamp() - ${time}) * 1000`;

/** What is open now, in the sessions of a user, or with null of all users. */
export async function readNow(db: Db, user: string | null): Promise<Now> {
  const { oldest_s, ...open } = user === null ? await readOpenWork(db) : await openWorkOf(db, user);
  return {
    ...open,
    oldest_ms: Math.round(oldest_s * 1_000),
    overdue_ms: await overdueMs(db),
    ...(await leasesNow(db)),
  };
}

const openWork = z.object({ queued: count, running: count, waiting: count, oldest_s: z.number(), stuck: count });

async function openWorkOf(db: Db, user: string): Promise<z.output<typeof openWork>> {
  const work = await maybeOne(
    db,
    openWork,
    `SELECT count(*) FILTER (WHERE r.state = 'queued') AS queued, count(*) FILTER (WHERE r.state = 'running') AS running,
            count(*) FILTER (WHERE r.state = 'waiting') AS waiting,
            coalesce(max(extract(epoch FROM clock_timestamp() - r.created_at)::double precision)
                       FILTER (WHERE r.state = 'queued' AND r.check_at IS NOT NULL), 0) AS oldest_s,
            (SELECT count(*) FROM sessions o JOIN chat_sessions c USING (session_id)
              WHERE o.user_id = $1 AND c.stuck_at IS NOT NULL) AS stuck
       FROM sessions s JOIN chat_runs r USING (session_id)
      WHERE s.user_id = $1 AND r.state IN ('queued', 'running', 'waiting')`,
    [user],
  );
  return work ?? { queued: 0, running: 0, waiting: 0, oldest_s: 0, stuck: 0 };
}

/** By how much the sweepers are late, of all runs. */
async function overdueMs(db: Db): Promise<number> {
  const states = ['queued', 'running', 'waiting'].map(
    (state) => `
    (SELECT check_at FROM chat_runs WHERE state = '${state}' AND check_at < clock_timestamp() ORDER BY check_at LIMIT 1)`,
  );
  const [ms = 0] = await column(
    db,
    z.number(),
    `SELECT coalesce(max(${msSince('check_at')}), 0)::double precision FROM (${states.join(' UNION ALL ')}) AS due`,
  );
  return Math.round(ms);
}

async function leasesNow(db: Db): Promise<Pick<Now, 'workers' | 'lost_workers' | 'lease_age_ms'>> {
  const row = await maybeOne(
    db,
    z.object({ workers: count, lost_workers: count, age: z.number() }),
    `SELECT count(*) FILTER (WHERE ${WORKER_LIVES}) AS workers, count(*) FILTER (WHERE NOT (${WORKER_LIVES})) AS lost_workers,
            coalesce(max(${msSince('renewed_at')}) FILTER (WHERE ${WORKER_LIVES}), 0)::double precision AS age
       FROM worker_leases`,
  );
  const { age = 0, workers = 0, lost_workers = 0 } = row ?? {};
  return { workers, lost_workers, lease_age_ms: Math.round(Math.max(age, 0)) };
}
