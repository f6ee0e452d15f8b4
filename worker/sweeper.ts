import { type Client, WithStartWorkflowOperation } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import { type SleepingRun, sleepingRuns } from '../store/sweep.ts';
import { submitUpdate } from '../workflows/definitions.ts';
import { sessionStart } from '../workflows/start.ts';

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
  private readonly db: pg.Pool;
  private readonly client: Client;
  private readonly log: Logger;
  private readonly intervalMs: number;
  private readonly woken: () => void;
  private asked: { session_id: string; run_seq: number; at: number }[] = [];
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private stopped = false;

  constructor(deps: { db: pg.Pool; client: Client; log: Logger; intervalMs: number; woken?: () => void }) {
    this.db = deps.db;
    this.client = deps.client;
    this.log = deps.log;
    this.intervalMs = deps.intervalMs;
    this.woken = deps.woken ?? (() => {});
  }

  start(): void {
    if (this.stopped) return;
    // Workers that started together need not ask together.
    const wait = this.intervalMs * (0.75 + Math.random() / 2);
    this.timer = setTimeout(() => {
      this.running = this.sweep()
        .catch((error: unknown) => this.log.warn({ err: error }, 'sweeping failed'))
        .finally(() => this.start());
    }, wait);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.running;
  }

  /** Looks once, and wakes what sleeps. */
  async sweep(): Promise<void> {
    const now = Date.now();
    this.asked = this.asked.filter(({ at }) => at >= now - AGAIN_MS);
    const due = { queuedMs: QUEUED_MS, silentMs: SILENT_MS, limit: AT_ONCE };
    const runs = await sleepingRuns(this.db, { ...due, known: this.asked });
    for (const { session_id, run_seq } of runs) this.asked.push({ session_id, run_seq, at: now });
    await Promise.all(runs.map((run) => this.wake(run, now)));
  }

  private async wake(run: SleepingRun, now: number): Promise<void> {
    try {
      if (run.state === 'running' && (await this.isAlive(run.session_id))) return;
      this.log.info({ session: run.session_id, run: run.run_seq }, 'waking a session with a forgotten message');
      this.woken();
      await this.client.connection.withDeadline(Date.now() + DEADLINE_MS, () =>
        this.client.workflow.executeUpdateWithStart(submitUpdate, {
          updateId: `sweep:${run.run_seq}:${Math.floor(now / AGAIN_MS)}`,
          args: [{ run_seq: run.run_seq, message_id: run.message_id, model: run.model }],
          startWorkflowOperation: startOf(run),
        }),
      );
    } catch (error) {
      this.log.warn({ err: error, session: run.session_id, run: run.run_seq }, 'a session could not be woken');
    }
  }

  private async isAlive(sessionId: string): Promise<boolean> {
    try {
      const { status } = await this.client.connection.withDeadline(Date.now() + DEADLINE_MS, () =>
        this.client.workflow.getHandle(sessionId).describe(),
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
