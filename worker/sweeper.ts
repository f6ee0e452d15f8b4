import { type Client, WithStartWorkflowOperation } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import { type SleepingRun, sleepingRuns } from '../store/sweep.ts';
import { submitUpdate } from '../workflows/definitions.ts';
import { sessionStart } from '../workflows/start.ts';
import { Rounds } from './rounds.ts';

/** A message waits this long before it counts as forgotten. */
const QUEUED_MS = 2_000;
/** A run writes at least this often, or its workflow is asked after. */
const SILENT_MS = 30_000;
/** The same run is woken at most this often, by all workers together. */
const AGAIN_MS = 10_000;
const AT_ONCE = 100;
const DEADLINE_MS = 3_000;

/**
 * Wakes sessions whose accepted messages nobody works on: the wake was lost with its sender, Temporal was away, or the
 * workflow was ended. A wake too many does no harm: the row decides what runs.
 */
export class Sweeper {
  private readonly deps: { db: pg.Pool; client: Client; log: Logger; woken: () => void };
  private readonly rounds: Rounds;
  private asked: { session_id: string; run_seq: number; at: number }[] = [];

  constructor(deps: Sweeper['deps'], intervalMs: number) {
    this.deps = deps;
    this.rounds = new Rounds(intervalMs, () =>
      this.sweep().catch((error: unknown) => deps.log.warn({ err: error }, 'sweeping failed')),
    );
  }

  start(): void {
    this.rounds.start();
  }

  stop(): Promise<void> {
    return this.rounds.stop();
  }

  /** Looks once, and wakes what sleeps. */
  private async sweep(): Promise<void> {
    const now = Date.now();
    this.asked = this.asked.filter(({ at }) => at >= now - AGAIN_MS);
    const due = { queuedMs: QUEUED_MS, silentMs: SILENT_MS, limit: AT_ONCE };
    const runs = await sleepingRuns(this.deps.db, { ...due, known: this.asked });
    for (const { session_id, run_seq } of runs) this.asked.push({ session_id, run_seq, at: now });
    await Promise.all(runs.map((run) => this.wake(run, now)));
  }

  private async wake(run: SleepingRun, now: number): Promise<void> {
    const { client, log, woken } = this.deps;
    try {
      if (run.state === 'running' && (await this.isAlive(run.session_id))) return;
      log.info({ session: run.session_id, run: run.run_seq }, 'waking a session with a forgotten message');
      woken();
      await client.connection.withDeadline(Date.now() + DEADLINE_MS, () =>
        client.workflow.executeUpdateWithStart(submitUpdate, {
          updateId: `sweep:${run.run_seq}:${Math.floor(now / AGAIN_MS)}`,
          args: [{ run_seq: run.run_seq, message_id: run.message_id, model: run.model }],
          startWorkflowOperation: startOf(run),
        }),
      );
    } catch (error) {
      log.warn({ err: error, session: run.session_id, run: run.run_seq }, 'a session could not be woken');
    }
  }

  private async isAlive(sessionId: string): Promise<boolean> {
    const { client } = this.deps;
    try {
      const { status } = await client.connection.withDeadline(Date.now() + DEADLINE_MS, () =>
        client.workflow.getHandle(sessionId).describe(),
      );
      return status.name === 'RUNNING';
    } catch {
      return false;
    }
  }
}

function startOf(run: SleepingRun): WithStartWorkflowOperation<(sessionId: string) => Promise<void>> {
  const { type, ...options } = sessionStart({
    sessionId: run.session_id,
    userId: run.user_id,
    agent: run.agent,
    phase: run.phase,
    projectId: run.project_id,
  });
  return new WithStartWorkflowOperation(type, options);
}
