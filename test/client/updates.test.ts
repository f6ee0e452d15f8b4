import { promisify } from 'node:util';
import { type handleUnaryCall, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { ApplicationFailure, ServiceError, WorkflowUpdateFailedError } from '@temporalio/client';
import proto from '@temporalio/proto';
import { expect, it } from 'vitest';
import { NoAnswerError, updateError } from '../../client/refusal-errors.ts';
import { type AttemptFailure, classifyFailure, sendUpdate } from '../../client/send/send-update.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { submitUpdate } from '../../workflows/definitions.ts';

/** The SDK's error for a gRPC status. */
const grpc = (code: number, details: string) => Object.assign(new Error(details), { code, details, metadata: {} });
const refused = (type: string) =>
  new WorkflowUpdateFailedError('Workflow Update failed', ApplicationFailure.nonRetryable(type, type));

it.each<[what: string, error: Error, means: AttemptFailure]>([
  ['ten updates are in flight already', grpc(8, 'limit on number of concurrent in-flight updates'), 'unknown'],
  ['a rate limit, wrapped', new ServiceError('failed', { cause: grpc(8, 'rate limit') }), 'unknown'],
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
  expect(classifyFailure(error, false)).toBe(means);
});

const { ExecuteMultiOperationRequest, ExecuteMultiOperationResponse } = proto.temporal.api.workflowservice.v1;
const ADMITTED = {
  responses: [
    { startWorkflow: { runId: 'run' } },
    {
      updateWorkflow: {
        stage:
          proto.temporal.api.enums.v1.UpdateWorkflowExecutionLifecycleStage
            .UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED,
      },
    },
  ],
};

type Answer = 'admitted' | status;

/** A server that answers the first requests for an update as told, with a status or that it is admitted, and no others. */
async function serverThatAnswers(answers: Answer[]): Promise<string> {
  const server = new Server();
  const executeMultiOperation: handleUnaryCall<unknown, typeof ADMITTED> = (_call, respond) => {
    const answer = answers.shift();
    if (answer === 'admitted') respond(null, ADMITTED);
    else if (answer !== undefined) respond({ code: answer, details: status[answer] });
  };
  const definition = {
    path: '/temporal.api.workflowservice.v1.WorkflowService/ExecuteMultiOperation',
    requestStream: false,
    responseStream: false,
    requestSerialize: (message: object) => Buffer.from(ExecuteMultiOperationRequest.encode(message).finish()),
    requestDeserialize: (bytes: Buffer) => ExecuteMultiOperationRequest.decode(bytes),
    responseSerialize: (message: object) => Buffer.from(ExecuteMultiOperationResponse.encode(message).finish()),
    responseDeserialize: (bytes: Buffer) => ExecuteMultiOperationResponse.decode(bytes),
  } as const;
  server.addService({ executeMultiOperation: definition }, { executeMultiOperation });
  const bind = promisify(server.bindAsync.bind(server));
  const port = await bind('127.0.0.1:0', ServerCredentials.createInsecure());
  afterFile(() => server.forceShutdown());
  return `127.0.0.1:${port}`;
}

it.each<[what: string, answers: Answer[], notDone: boolean]>([
  ['the server refuses its first request', [status.UNAUTHENTICATED], true],
  [
    'the server has admitted it and refuses the request for its outcome',
    ['admitted', status.UNAUTHENTICATED, status.UNAUTHENTICATED],
    false,
  ],
  ['the server was out of resources and then refuses it', [status.RESOURCE_EXHAUSTED, status.UNAUTHENTICATED], false],
])('H2 the outcome of an update is unknown if it may be carried out: %s', async (_what, answers, notDone) => {
  const temporal = temporalClient({
    connectionOptions: { address: await serverThatAnswers(answers) },
    namespace: 'default',
  });
  afterFile(() => temporal.connection.close());
  const workflows = { temporal, taskQueue: 'perdure', showUser: (user: string) => user };
  const target = { session_id: 'ses_1', user_id: 'ada', agent: 'any', phase: 'chatting', project_id: null } as const;
  const args = { run_seq: 1, message_id: 'msg_1', model: null };
  const sent = sendUpdate(workflows, target, { name: submitUpdate, id: 'any', args, deadlineMs: patient(20_000) });
  await expect(sent).rejects.toMatchObject({ name: 'NoAnswerError', notDone });
  expect(answers).toEqual([]);
});

it('H2 503 says that the outcome is unknown only if it is', () => {
  const busy = updateError(new NoAnswerError(true, { cause: grpc(8, 'limit') }));
  expect([busy.code, busy.message]).toEqual(['Unavailable', expect.stringContaining('was not carried out')]);
  expect(busy.message).not.toContain('unknown');
  const late = updateError(new NoAnswerError(false, { cause: grpc(4, 'Deadline exceeded') }));
  expect([late.code, late.message]).toEqual(['Unavailable', expect.stringContaining('outcome is unknown')]);
  for (const { message } of [busy, late]) expect(message).toContain('Idempotency-Key');
});
