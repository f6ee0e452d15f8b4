import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import { sendUpdate } from '../client/updates.ts';
import { claimDueRuns, type DueRun } from '../store/sweep.ts';
import { submitUpdate } from '../workflows/definitions.ts';

/** Runs of each state per sweep: a full sweep stays below 5,000 buffers of Postgres. */
export const AT_ONCE = 75;
const DEADLINE_MS = 3_000;

/**
 * Wakes sessions with an accepted message that nobody works on: the wake-up was lost with its sender, Temporal was away,
 * or the workflow was terminated. An unneeded wake-up does no harm: the row decides what runs.
 */
export class Sweeper {
  private readonly deps: { db: pg.Pool; client: Client; log: Logger; woken: () => void };

  constructor(deps: Sweeper['deps']) {
    this.deps = deps;
  }

  /** Sweeps once; never rejects. */
  async run(): Promise<void> {
    try {
      const runs = await claimDueRuns(this.deps.db, AT_ONCE);
      await Promise.all(runs.map((run) => this.wake(run)));
    } catch (error) {
      this.deps.log.warn({ err: error }, 'sweeping failed');
    }
  }

  private async wake(run: DueRun): Promise<void> {
    const { client, log, woken } = this.deps;
    try {
      if (run.state === 'running' && (await this.isAlive(run.session_id))) return;
      log.info({ session: run.session_id, run: run.run_seq }, 'waking a session with a forgotten message');
      woken();
      await sendUpdate(client, run, {
        name: submitUpdate,
        id: `sweep:${run.run_seq}:${Date.now()}`,
        args: { run_seq: run.run_seq, message_id: run.message_id, model: run.model },
        deadlineMs: DEADLINE_MS,
      });
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
