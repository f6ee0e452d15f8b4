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

interface StuckDeps {
  db: pg.Pool;
  client: Client;
  bus: Bus;
  log: Logger;
}

/**
 * Finds the sessions that the deployed code cannot continue, most likely because it cannot replay their history, and
 * records that in their status, event log, the worker's log and (from the rows) a gauge. It does not touch their
 * workflows: those continue on their own once a worker can replay them.
 */
export async function checkForStuck(deps: StuckDeps, signal: AbortSignal): Promise<void> {
  const stuck = await stuckNow(deps.client);
  const known = new Set(await stuckSessions(deps.db, [...stuck.keys()], LIMIT));
  for (const [session, cause] of stuck) {
    if (signal.aborted) return;
    if (!known.has(session)) await note(deps, session, cause);
  }
  if (stuck.size === LIMIT) return;
  for (const session of known) if (!stuck.has(session)) await note(deps, session, null);
}

/** Session id → why its last workflow task failed, in Temporal's words. */
async function stuckNow({ connection, workflow }: Client): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  await connection.withDeadline(Date.now() + DEADLINE_MS, async () => {
    for await (const { workflowId, searchAttributes } of workflow.list({ query: QUERY })) {
      found.set(workflowId, causeOf(searchAttributes['TemporalReportedProblems']));
      if (found.size === LIMIT) return;
    }
  });
  return found;
}

async function note({ db, bus, log }: StuckDeps, session: string, cause: string | null): Promise<void> {
  if (!(await noteStuck(db, session, cause))) return;
  bus.publish({ session, kind: 'status' });
  if (cause === null) log.info({ session }, 'a stuck session continues');
  else log.error({ session, cause }, 'the deployed code cannot continue this session; it waits for code that can');
}

/** `NonDeterministicError` of `cause=WorkflowTaskFailedCauseNonDeterministicError`. */
function causeOf(problems: readonly unknown[] = []): string {
  const cause = problems.map(String).find((each) => each.startsWith('cause='));
  return cause?.replace(/^cause=(?:WorkflowTaskFailedCause)?/, '') ?? 'Unknown';
}
