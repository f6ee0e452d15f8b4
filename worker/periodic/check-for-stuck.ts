import type { Client } from '@temporalio/client';
import type pg from 'pg';
import type { Logger } from 'pino';
import type { Bus } from '../../bus/bus.ts';
import { noteStuck, type StuckWorkflow, stuckWorkflows } from '../../store/stuck.ts';
import { INITIATIVE_WORKFLOW, SESSION_WORKFLOW } from '../../workflows/definitions.ts';

/**
 * Sessions and initiatives whose workflow tasks keep failing; the server sets and removes this mark. Tasks that time out are left out:
 * their workers are overloaded, the code is fine.
 */
const queryOf = (taskQueue: string) =>
  `TaskQueue = "${taskQueue}" AND WorkflowType IN ("${SESSION_WORKFLOW}", "${INITIATIVE_WORKFLOW}") AND ExecutionStatus = "Running" AND TemporalReportedProblems = "category=WorkflowTaskFailed"`;
const DEADLINE_MS = 10_000;
/** Workflows per check; a bad deploy may stop all of them, and the rest follow as these recover. */
const LIMIT = 1_000;

interface StuckDeps {
  db: pg.Pool;
  client: Client;
  taskQueue: string;
  bus: Bus;
  log: Logger;
}

/**
 * Finds the sessions and initiatives that the deployed code cannot continue, most likely because it cannot replay their history, and
 * records that in their event log, the worker's log and (from the rows) gauges, of sessions in their status, too. It does not touch their
 * workflows: those continue on their own once a worker can replay them.
 */
export async function checkForStuck(deps: StuckDeps, signal: AbortSignal): Promise<void> {
  const stuck = await stuckNow(deps);
  const known = await stuckWorkflows(deps.db, [...stuck.keys()], LIMIT);
  const ids = new Set(known.map(({ id }) => id));
  for (const [id, { kind, cause }] of stuck) {
    if (signal.aborted) return;
    if (!ids.has(id)) await note(deps, { id, kind }, cause);
  }
  if (stuck.size === LIMIT) return;
  for (const one of known) if (!stuck.has(one.id)) await note(deps, one, null);
}

type Found = Pick<StuckWorkflow, 'kind'> & { cause: string };

/** Id → why its last workflow task failed, in Temporal's words. */
async function stuckNow({ client: { connection, workflow }, taskQueue }: StuckDeps): Promise<Map<string, Found>> {
  const found = new Map<string, Found>();
  await connection.withDeadline(Date.now() + DEADLINE_MS, async () => {
    for await (const { workflowId, type, searchAttributes } of workflow.list({ query: queryOf(taskQueue) })) {
      const kind = type === SESSION_WORKFLOW ? 'session' : 'initiative';
      found.set(workflowId, { kind, cause: causeOf(searchAttributes['TemporalReportedProblems']) });
      if (found.size === LIMIT) return;
    }
  });
  return found;
}

async function note({ db, bus, log }: StuckDeps, { id, kind }: StuckWorkflow, cause: string | null): Promise<void> {
  if (!(await noteStuck(db, { id, kind }, cause))) return;
  bus.publish({ session: id, kind: 'status' });
  if (cause === null) log.info({ [kind]: id }, `a stuck ${kind} continues`);
  else log.error({ [kind]: id, cause }, `the deployed code cannot continue this ${kind}; it waits for code that can`);
}

/** `NonDeterministicError` of `cause=WorkflowTaskFailedCauseNonDeterministicError`. */
function causeOf(problems: readonly unknown[] = []): string {
  const cause = problems.map(String).find((each) => each.startsWith('cause='));
  return cause?.replace(/^cause=(?:WorkflowTaskFailedCause)?/, '') ?? 'Unknown';
}
