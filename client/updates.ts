import { type Client, WithStartWorkflowOperation } from '@temporalio/client';
import type { UpdateDefinition } from '@temporalio/common';
import { withinMs } from './deadline.ts';
import type { OwnedSession } from '../store/sessions.ts';
import { sessionStart } from '../workflows/start.ts';

/** A session and its owner, as whoever starts its workflow has to know them. */
export interface Target extends OwnedSession {
  user_id: string;
}

/**
 * Sends an update to a session's workflow, starting it where it does not run, and waits for the answer.
 *
 * @param update.id the update is carried out once per id and workflow run; across runs its receipt sees to that
 * @throws {WorkflowUpdateFailedError} it was refused, or what the client throws when there is no answer by the deadline
 */
export function sendUpdate<Outcome, Args extends object>(
  temporal: Client,
  target: Target,
  update: { name: UpdateDefinition<Outcome, [Args]>; id: string; args: Args; deadlineMs: number },
): Promise<Outcome> {
  const { type, ...start } = sessionStart({
    sessionId: target.session_id,
    userId: target.user_id,
    agent: target.agent,
    phase: target.phase,
    projectId: target.project_id,
  });
  const startWorkflowOperation = new WithStartWorkflowOperation<(sessionId: string) => Promise<void>>(type, start);
  // Its own promise tells of the same failure; nobody waits for it.
  startWorkflowOperation.workflowHandle().catch(() => {});
  const answer = temporal.connection.withDeadline(Date.now() + update.deadlineMs, () =>
    temporal.workflow.executeUpdateWithStart(update.name, {
      updateId: update.id,
      args: [update.args],
      startWorkflowOperation,
    }),
  );
  return withinMs(update.deadlineMs, answer);
}
