import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import type { Bus } from '../bus/bus.ts';
import { noteStuck, stuckSessions } from '../store/stuck.ts';
import { SESSION_WORKFLOW } from '../workflows/definitions.ts';
import { Rounds } from './rounds.ts';

/**
 * Sessions whose workflow's tasks keep failing, as the server marks them; it takes that back by itself. Those that time out
 * are no matter of the code: their workers have too much to do.
 */
const QUERY = `WorkflowType = "${SESSION_WORKFLOW}" AND ExecutionStatus = "Running" AND TemporalReportedProblems = "category=WorkflowTaskFailed"`;
const DEADLINE_MS = 10_000;
/** Of a bad deploy that stops every session, as many are named; the others follow as these go on. */
const MOST = 1_000;

/**
 * Finds the sessions that the deployed code cannot carry on, most likely because it cannot replay their history, and says
 * so: in their status and event log, in the worker's log and, by the rows, in a gauge. It changes nothing about their
 * workflows: those go on by themselves once a worker is there that can replay them.
 */
export class StuckWatch {
  private readonly deps: { db: pg.Pool; client: Client; bus: Bus; log: Logger };
  private readonly rounds: Rounds;
  private failing = false;

  constructor(deps: StuckWatch['deps'], intervalMs: number) {
    this.deps = deps;
    this.rounds = new Rounds(intervalMs, (stopping) =>
      this.look(stopping).then(
        () => void (this.failing = false),
        (error: unknown) => this.failed(error),
      ),
    );
  }

  start(): void {
    this.rounds.start();
  }

  stop(): Promise<void> {
    return this.rounds.stop();
  }

  private async look(stopping: AbortSignal): Promise<void> {
    const known = new Set(await stuckSessions(this.deps.db));
    const stuck = await this.stuckNow();
    for (const [session, cause] of stuck) {
      if (stopping.aborted) return;
      if (!known.has(session)) await this.note(session, cause);
    }
    if (stuck.size === MOST) return;
    for (const session of known) if (!stuck.has(session)) await this.note(session, null);
  }

  /** Sessions by id, and why the last task of each came to nothing, in Temporal's words. */
  private async stuckNow(): Promise<Map<string, string>> {
    const { client } = this.deps;
    const found = new Map<string, string>();
    await client.connection.withDeadline(Date.now() + DEADLINE_MS, async () => {
      for await (const { workflowId, searchAttributes } of client.workflow.list({ query: QUERY })) {
        found.set(workflowId, causeOf(searchAttributes['TemporalReportedProblems']));
        if (found.size === MOST) return;
      }
    });
    return found;
  }

  private async note(session: string, cause: string | null): Promise<void> {
    const { db, bus, log } = this.deps;
    if (!(await noteStuck(db, session, cause))) return;
    bus.publish({ session, kind: 'status' });
    if (cause === null) log.info({ session }, 'a session that was stuck goes on');
    else log.error({ session, cause }, 'the deployed code cannot carry on this session; it waits for code that can');
  }

  /** Said once, not at every look: a server may not know the search attribute. */
  private failed(error: unknown): void {
    if (!this.failing) this.deps.log.warn({ err: error }, 'stuck sessions cannot be looked for');
    this.failing = true;
  }
}

/** `NonDeterministicError` of `cause=WorkflowTaskFailedCauseNonDeterministicError`. */
function causeOf(problems: readonly unknown[] = []): string {
  const cause = problems.map(String).find((each) => each.startsWith('cause='));
  return cause?.replace(/^cause=(?:WorkflowTaskFailedCause)?/, '') ?? 'Unknown';
}
