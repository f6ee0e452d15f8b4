import { z } from 'zod';
import type { Fence } from '../domain/runs.ts';
import { call, column, type Db, maybe } from './db.ts';
import { toolCallRow } from './results.ts';

const renewal = z.object({
  /** Time since the lease was renewed last, in milliseconds by Postgres' clock. */
  gap_ms: z.number(),
  /** Other workers that have used more than half of their lease. */
  late: z.array(z.object({ worker_id: z.string(), lease_ms: z.number(), age_ms: z.number() })),
});

/** What a worker learns when it renews its lease. */
export type Renewal = z.infer<typeof renewal>;

/** Activities that a worker runs: number → task token. */
export type RunningActivities = ReadonlyMap<number, Uint8Array>;

/** Of a row of worker_leases: its worker lives, as far as others can tell. */
export const WORKER_LIVES = `
  lost_at IS NULL AND clock_timestamp() - renewed_at < greatest(lease_ms, 5000) * interval '1 millisecond'`;

const nothing = z.unknown().transform(() => {});

/**
 * Takes a lease of `leaseMs`, also after it was found lost, with all activities that the worker runs now and its agents.
 * @returns how long Postgres has been up, in milliseconds
 */
export function takeLease(
  db: Db,
  worker: string,
  { leaseMs, running, agents }: { leaseMs: number; running: RunningActivities; agents: readonly string[] },
): Promise<number> {
  return call(db, z.number(), 'take_lease', [worker, Math.ceil(leaseMs), ...columnsOf(running), agents]);
}

/** The ids of the agents of each worker that lives and has said which. */
export function workersAgents(db: Db): Promise<string[][]> {
  return column(
    db,
    z.array(z.string()),
    `SELECT agents FROM worker_leases WHERE agents IS NOT NULL AND ${WORKER_LIVES}`,
  );
}

/** Lists activities that began. */
export function listActivities(db: Db, worker: string, began: RunningActivities): Promise<void> {
  return call(db, nothing, 'list_activities', [worker, ...columnsOf(began)]);
}

/**
 * Renews a lease, and removes the activities that `ended`, by their numbers. Undefined: another worker has found it lost, or
 * Postgres crashed, and it has to be taken again.
 */
export function renewLease(db: Db, worker: string, leaseMs: number, ended: number[]): Promise<Renewal | undefined> {
  return call(db, maybe(renewal), 'renew_lease', [worker, Math.ceil(leaseMs), ended]);
}

const lostRun = z.object({
  session_id: z.string(),
  run_seq: z.number(),
  /** Its next step, and the calls of the step before it that have no outcome. */
  step: z.number(),
  calls: z.array(toolCallRow),
  /** The fence of whoever goes on. */
  fence: z.custom<Fence>(),
});
/** A turn that a lost worker had begun before its activity came. */
export type LostRun = z.infer<typeof lostRun>;

const lostWork = z.object({
  tokens: z.array(z.string().transform((token): Uint8Array => Buffer.from(token, 'base64'))),
  runs: z.array(lostRun),
  queued: z.array(z.object({ session_id: z.string(), run_seq: z.number() })),
});
/** What a lost worker leaves: task tokens of activities, head starts, and runs that nobody has begun. */
export type LostWork = z.infer<typeof lostWork>;

/** Declares a worker lost whose lease has lapsed. Undefined: it is not lost. */
export function findLostWorker(db: Db, worker: string): Promise<LostWork | undefined> {
  return call(db, maybe(lostWork), 'find_lost_worker', [worker]);
}

/** Ends the lease of a worker that has stopped. */
export function endLease(db: Db, worker: string): Promise<void> {
  return call(db, nothing, 'end_lease', [worker, false]);
}

/** Ends the lease of a lost worker whose activities have been failed, unless it has taken it again. */
export function forgetLostWorker(db: Db, worker: string): Promise<void> {
  return call(db, nothing, 'end_lease', [worker, true]);
}

function columnsOf(activities: RunningActivities): [number[], Buffer[]] {
  return [[...activities.keys()], [...activities.values()].map((token) => Buffer.from(token))];
}
