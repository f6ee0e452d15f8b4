import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import type { Bus } from '../bus/bus.ts';
import { noteStuck, stuckSessions } from '../store/stuck.ts';
import { SESSION_WORKFLOW } from '../workflows/definitions.ts';

/**
 * Sessions whose workflow tasks keep failing; the server sets and removes this mark. Tasks that time out are left out:
 * their workers are overloaded, the code is fine.
 */
const QUERY = `WorkflowType = "${SESSION_WORKFLOW}" AND ExecutionStatus = "Running" AND TemporalReportedProblems = "category=WorkflowTaskFailed"`;
const DEADLINE_MS = 10_000;
/** Sessions per check; a bad deploy may stop all of them, and the rest follow as these recover. */
const LIMIT = 1_000;

/**
 * Finds the sessions that the deployed code cannot continue, most likely because it cannot replay their history, and
 * records that in their status, event log, the worker's log and (from the rows) a gauge. It does not touch their
 * workflows: those continue on their own once a worker can replay them.
 */
export class StuckCheck {
  private readonly deps: { db: pg.Pool; client: Client; bus: Bus; log: Logger };
  private failing = false;

  constructor(deps: StuckCheck['deps']) {
    this.deps = deps;
  }

  /** Checks once; never rejects. Consecutive failures are logged once: a server may not know the search attribute. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.check(signal);
      this.failing = false;
    } catch (error) {
      if (!this.failing) this.deps.log.warn({ err: error }, 'cannot check for stuck sessions');
      this.failing = true;
    }
  }

  private async check(signal: AbortSignal): Promise<void> {
    const stuck = await this.stuckNow();
    const known = new Set(await stuckSessions(this.deps.db, [...stuck.keys()], LIMIT));
    for (const [session, cause] of stuck) {
      if (signal.aborted) return;
      if (!known.has(session)) await this.note(session, cause);
    }
    if (stuck.size === LIMIT) return;
    for (const session of known) if (!stuck.has(session)) await this.note(session, null);
  }

  /** Session id → why its last workflow task failed, in Temporal's words. */
  private async stuckNow(): Promise<Map<string, string>> {
    const { client } = this.deps;
    const found = new Map<string, string>();
    await client.connection.withDeadline(Date.now() + DEADLINE_MS, async () => {
      for await (const { workflowId, searchAttributes } of client.workflow.list({ query: QUERY })) {
        found.set(workflowId, causeOf(searchAttributes['TemporalReportedProblems']));
        if (found.size === LIMIT) return;
      }
    });
    return found;
  }

  private async note(session: string, cause: string | null): Promise<void> {
    const { db, bus, log } = this.deps;
    if (!(await noteStuck(db, session, cause))) return;
    bus.publish({ session, kind: 'status' });
    if (cause === null) log.info({ session }, 'a stuck session continues');
    else log.error({ session, cause }, 'the deployed code cannot continue this session; it waits for code that can');
  }
}

/** `NonDeterministicError` of `cause=WorkflowTaskFailedCauseNonDeterministicError`. */
function causeOf(problems: readonly unknown[] = []): string {
  const cause = problems.map(String).find((each) => each.startsWith('cause='));
  return cause?.replace(/^cause=(?:WorkflowTaskFailedCause)?/, '') ?? 'Unknown';
}
