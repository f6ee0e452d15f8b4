import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import { sendUpdate } from '../client/updates.ts';
import { type SleepingRun, sleepingRuns } from '../store/sweep.ts';
import { submitUpdate } from '../workflows/definitions.ts';

/** A message waits this long before it counts as forgotten. */
const QUEUED_MS = 2_000;
/** A running run that writes nothing for this long has its workflow checked. */
const SILENT_MS = 30_000;
/** The same run is woken at most this often, by all workers together. */
const AGAIN_MS = 10_000;
const AT_ONCE = 100;
const DEADLINE_MS = 3_000;

/**
 * Wakes sessions with an accepted message that nobody works on: the wake-up was lost with its sender, Temporal was away,
 * or the workflow was terminated. An unneeded wake-up does no harm: the row decides what runs.
 */
export class Sweeper {
  private readonly deps: { db: pg.Pool; client: Client; log: Logger; woken: () => void };
  private asked: { session_id: string; run_seq: number; at: number }[] = [];

  constructor(deps: Sweeper['deps']) {
    this.deps = deps;
  }

  /** Sweeps once; never rejects. */
  async run(): Promise<void> {
    try {
      const now = Date.now();
      this.asked = this.asked.filter(({ at }) => at >= now - AGAIN_MS);
      const due = { queuedMs: QUEUED_MS, silentMs: SILENT_MS, limit: AT_ONCE };
      const runs = await sleepingRuns(this.deps.db, { ...due, known: this.asked });
      for (const { session_id, run_seq } of runs) this.asked.push({ session_id, run_seq, at: now });
      await Promise.all(runs.map((run) => this.wake(run, now)));
    } catch (error) {
      this.deps.log.warn({ err: error }, 'sweeping failed');
    }
  }

  private async wake(run: SleepingRun, now: number): Promise<void> {
    const { client, log, woken } = this.deps;
    try {
      if (run.state === 'running' && (await this.isAlive(run.session_id))) return;
      log.info({ session: run.session_id, run: run.run_seq }, 'waking a session with a forgotten message');
      woken();
      await sendUpdate(client, run, {
        name: submitUpdate,
        id: `sweep:${run.run_seq}:${Math.floor(now / AGAIN_MS)}`,
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
