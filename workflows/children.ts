// Subagents: sessions that tool calls of this one have opened. Rows say what is to be done; what a workflow tells another one
// only makes it look at them, so a message that is lost delays it until the sweeper sends another one.
import {
  CancellationScope,
  ChildWorkflowCancellationType,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  startChild as startChildWorkflow,
  WorkflowIdReusePolicy,
} from '@temporalio/workflow';
import type { OpenedChild, Wake } from '../domain/activities.ts';
import type { ChildRun } from '../domain/command-table.ts';
import { localActivities } from './activities.ts';
import { wakeSignal } from './definitions.ts';
import { resume } from './sequencer.ts';
import { sessionStart } from './start.ts';
import type { WorkflowState } from './workflow-state.ts';

/**
 * Starts the workflow of a child, which loads what it is to do from its rows. It outlives this execution: rows end it. Nothing is
 * done about a failure: its workflow runs already, or the sweeper starts it.
 */
export function startChild(session: WorkflowState, { session_id: sessionId, agent }: OpenedChild): void {
  const facts = {
    sessionId,
    user: session.userId,
    agent,
    phase: 'chatting',
    projectId: session.mark.project_id,
  } as const;
  const { type, taskQueue: _inherited, workflowIdConflictPolicy: _only, ...start } = sessionStart(facts, '');
  const started = CancellationScope.nonCancellable(() =>
    startChildWorkflow(type, {
      ...start,
      workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
      parentClosePolicy: ParentClosePolicy.ABANDON,
      cancellationType: ChildWorkflowCancellationType.ABANDON,
    }),
  );
  started.catch(() => {});
}

/** Tells the workflows of children whose runs have ended in their rows. */
export function tellEndedChildren(runs: readonly ChildRun[]): void {
  for (const { session_id: id, run_seq, message_id } of runs) {
    void tell(id, { run_seq, message_id, model: null, aborted_run: run_seq });
  }
}

/** The same for children that ended with a run of this session. */
export function tellChildrenOfRun({ children = [] }: { children?: readonly ChildRun[] }): void {
  tellEndedChildren(children);
}

/** Tells the workflows of children whose calls were answered in this session. */
export function tellAnsweredChildren(runs: readonly ChildRun[]): void {
  for (const { session_id: id, run_seq, message_id } of runs) void tell(id, { run_seq, message_id, model: null });
}

/** Tells the session whose tool call has opened this one, if it is to know something. Returns whether this one is over. */
export async function tellParent(session: WorkflowState): Promise<boolean> {
  const deliver = () => localActivities.deliverTask({ session_id: session.sessionId });
  const { over, news } = await session.sequencer.exclusively(deliver);
  if (news === null) return over;
  const { session_id: parent, ...run } = news;
  await resume(session.sequencer, 'main', tell(parent, run));
  return over;
}

function tell(sessionId: string, wake: Wake): Promise<void> {
  return CancellationScope.nonCancellable(() => getExternalWorkflowHandle(sessionId).signal(wakeSignal, wake)).catch(
    () => {},
  );
}
