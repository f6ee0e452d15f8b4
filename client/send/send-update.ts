import {
  ApplicationFailure,
  type Client,
  isGrpcServiceError,
  WithStartWorkflowOperation,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type { UpdateDefinition } from '@temporalio/common';
import pRetry from 'p-retry';
import type { ShowUser } from '../../config/show-user.ts';
import type { OwnedSession } from '../../store/sessions.ts';
import { type InitiativeFacts, initiativeStart, sessionStart } from '../../workflows/start.ts';
import { NoAnswerError } from '../refusal-errors.ts';

/** Where the workflows of sessions and initiatives are. */
export interface SessionWorkflows {
  temporal: Client;
  /** The task queue of a workflow that is started. */
  taskQueue: string;
  /** How a user's id is written into a workflow that is started. */
  showUser: ShowUser;
}

/** A session and its owner: what starting its workflow needs. */
export interface Target extends Omit<OwnedSession, 'model'> {
  user_id: string;
}

/** Backoff between attempts: short, because most failures pass as soon as the workflow's current task completes. */
const BACKOFF = { retries: Infinity, minTimeout: 50, maxTimeout: 1_000, randomize: true };

/** gRPC status codes, from https://grpc.io/docs/guides/status-codes/. */
const INVALID_ARGUMENT = 3;
const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const UNAUTHENTICATED = 16;
const PERMANENT = new Set([INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED]);

/** Types of the failures with which the server, not our workflow, ends an update. */
const UNPROCESSED = 'UnprocessedUpdate';
const WORKFLOW_COMPLETED = 'AcceptedUpdateCompletedWorkflow';

/**
 * What a failed attempt to send an update means:
 *
 * - `refused`: the workflow refused it.
 * - `not-done`: the server did not deliver it, because the workflow ended before.
 * - `unknown`: the workflow may have carried it out, or may still do so.
 * - `permanent`: the server refused the request before it took the update, and would refuse it again.
 *
 * `not-done` and `unknown` are sent again under the same id. That is safe: within one workflow run the server
 * deduplicates by update id, across runs the row does by command id.
 */
export type AttemptFailure = 'refused' | 'not-done' | 'unknown' | 'permanent';

/**
 * Classifies what `executeUpdateWithStart` threw.
 *
 * RESOURCE_EXHAUSTED is `unknown`: the workflow's limit of updates in flight and a rate limit answer before the update is
 * admitted, but the server itself repeats requests between its services, and so may refuse the second one after it has
 * admitted the first; other causes, such as an answer that is too long, come after it.
 *
 * @param isAdmitted whether the server has answered in this attempt: from then on only the update's outcome says what
 * became of it, whatever a request for that outcome gets
 */
export function classifyFailure(error: unknown, isAdmitted: boolean): AttemptFailure {
  if (error instanceof WorkflowUpdateFailedError) {
    const type = error.cause instanceof ApplicationFailure ? error.cause.type : undefined;
    if (type === UNPROCESSED) return 'not-done';
    return type === WORKFLOW_COMPLETED ? 'unknown' : 'refused';
  }
  const status = isAdmitted ? undefined : grpcStatus(error);
  return status !== undefined && PERMANENT.has(status) ? 'permanent' : 'unknown';
}

/** The SDK throws the gRPC error itself, or wraps it as a cause. */
function grpcStatus(error: unknown): number | undefined {
  if (isGrpcServiceError(error)) return error.code;
  return error instanceof Error ? grpcStatus(error.cause) : undefined;
}

/** An update to send. */
export interface Update<Outcome, Args> {
  name: UpdateDefinition<Outcome, [Args]>;
  /** It is carried out once per id and workflow run; across runs its idempotency record does that. */
  id: string;
  args: Args;
  deadlineMs: number;
}

/**
 * Sends an update to a session's workflow, starts the workflow if it is not running, and waits for the result.
 * Transient failures are retried under the same update id until the deadline.
 *
 * @throws {WorkflowUpdateFailedError} the workflow refused it
 * @throws {NoAnswerError} no response within `deadlineMs`
 */
export function sendUpdate<Outcome, Args extends object>(
  workflows: SessionWorkflows,
  { session_id: sessionId, agent, phase, project_id: projectId, user_id }: Target,
  update: Update<Outcome, Args>,
): Promise<Outcome> {
  const { temporal, taskQueue, showUser } = workflows;
  const { type, ...start } = sessionStart({ sessionId, user: showUser(user_id), agent, phase, projectId }, taskQueue);
  return sendWithStart(temporal, () => new WithStartWorkflowOperation(type, start), update);
}

/** The same for an initiative's workflow. */
export function sendInitiativeUpdate<Outcome, Args extends object>(
  workflows: SessionWorkflows,
  { user, ...facts }: InitiativeFacts,
  update: Update<Outcome, Args>,
): Promise<Outcome> {
  const { temporal, taskQueue, showUser } = workflows;
  const { type, ...start } = initiativeStart({ ...facts, user: showUser(user) }, taskQueue);
  return sendWithStart(temporal, () => new WithStartWorkflowOperation(type, start), update);
}

async function sendWithStart<Outcome, Args extends object>(
  temporal: Client,
  startOperation: () => WithStartWorkflowOperation<(id: string) => Promise<void>>,
  update: Update<Outcome, Args>,
): Promise<Outcome> {
  const deadline = Date.now() + update.deadlineMs;
  const failures = new Set<AttemptFailure>();
  const attempt = async () => {
    const startWorkflowOperation = startOperation();
    let isAdmitted = false;
    startWorkflowOperation.workflowHandle().then(
      () => (isAdmitted = true),
      () => {},
    );
    try {
      return await temporal.connection.withDeadline(deadline, () =>
        temporal.workflow.executeUpdateWithStart(update.name, {
          updateId: update.id,
          args: [update.args],
          startWorkflowOperation,
        }),
      );
    } catch (error) {
      failures.add(classifyFailure(error, isAdmitted));
      throw error;
    }
  };
  const shouldRetry = () => !failures.has('refused') && !failures.has('permanent');
  try {
    return await pRetry(attempt, { ...BACKOFF, shouldRetry, maxRetryTime: update.deadlineMs });
  } catch (error) {
    if (failures.has('refused')) throw error;
    throw new NoAnswerError(!failures.has('unknown'), { cause: error });
  }
}
