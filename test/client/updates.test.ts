import { ApplicationFailure, ServiceError, WorkflowUpdateFailedError } from '@temporalio/client';
import { expect, it } from 'vitest';
import { updateError } from '../../client/refusals.ts';
import { type AttemptFailure, classifyFailure, NoAnswer } from '../../client/updates.ts';

/** The SDK's error for a gRPC status. */
const grpc = (code: number, details: string) => Object.assign(new Error(details), { code, details, metadata: {} });
const refused = (type: string) =>
  new WorkflowUpdateFailedError('Workflow Update failed', ApplicationFailure.nonRetryable(type, type));

it.each<[what: string, error: Error, means: AttemptFailure]>([
  ['ten updates are in flight already', grpc(8, 'limit on number of concurrent in-flight updates'), 'not-done'],
  ['a rate limit, wrapped', new ServiceError('failed', { cause: grpc(8, 'rate limit') }), 'not-done'],
  ['the workflow ended before it was delivered', refused('UnprocessedUpdate'), 'not-done'],
  ['the workflow ended after accepting it', refused('AcceptedUpdateCompletedWorkflow'), 'unknown'],
  ['the server dropped the workflow from memory', grpc(14, 'workflow update was aborted'), 'unknown'],
  ['its workflow task is retried', grpc(9, 'failed precondition'), 'unknown'],
  ['the deadline passed', grpc(4, 'Deadline exceeded'), 'unknown'],
  ['anything else', new Error('odd'), 'unknown'],
  ['credentials that the server does not accept', grpc(16, 'unauthenticated'), 'permanent'],
  ['a request that the server does not understand', grpc(3, 'invalid argument'), 'permanent'],
  ['a refusal by the database', refused('InvalidTransition'), 'refused'],
])('H2 an update that failed: %s', (_what, error, means) => {
  expect(classifyFailure(error)).toBe(means);
});

it('H2 503 says that the outcome is unknown only if it is', () => {
  const busy = updateError(new NoAnswer(true, { cause: grpc(8, 'limit') }));
  expect([busy.code, busy.message]).toEqual(['Unavailable', expect.stringContaining('was not carried out')]);
  expect(busy.message).not.toContain('unknown');
  const late = updateError(new NoAnswer(false, { cause: grpc(4, 'Deadline exceeded') }));
  expect([late.code, late.message]).toEqual(['Unavailable', expect.stringContaining('outcome is unknown')]);
  for (const { message } of [busy, late]) expect(message).toContain('Idempotency-Key');
});
