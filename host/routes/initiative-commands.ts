import type { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import * as body from '../../wire/initiative-requests.ts';
import * as view from '../../wire/initiative-views.ts';
import { type Api, jsonResponse, type RouteResponse } from '../api/api.ts';
import type { RequestContext, RouteParts } from '../context.ts';

/** Carries out a command; `options` are those of the client's methods. */
type CarryOut<Params, Body> = (
  user: string,
  params: Params,
  body: Body,
  options: { idempotencyKey: string | undefined },
) => Promise<object>;

/** A handler that answers with what a command returns. */
function onItem<Params, Body>(carryOut: CarryOut<Params, Body>) {
  return async (
    c: RequestContext,
    input: { user: string; params: Params; body: Body; idempotencyKey: string | undefined },
  ): Promise<Response> => {
    const { user, params, body: given, idempotencyKey } = input;
    return c.json(await carryOut(user, params, given, { idempotencyKey }));
  };
}

/** Commands of initiatives: position, decisions, blockers, work sessions, tasks. */
export function initiativeCommandRoutes(api: Api, { client }: RouteParts): void {
  const { initiatives } = client;
  const id = body.initiativeRef;
  const command = <B>(
    name: string,
    summary: string,
    given: z.ZodType<B>,
    response: RouteResponse,
    errors: ErrorCode[] = [],
  ) => ({
    operationId: name,
    tag: 'Initiatives' as const,
    summary,
    command: name,
    body: given,
    idempotent: true,
    responses: { 200: response },
    errors: ['InitiativeNotFound' as const, ...errors],
  });
  const blocker = jsonResponse(view.blockerAnswer, 'The blocker');
  const session = jsonResponse(view.workSessionAnswer, 'The work session');
  const task = jsonResponse(view.initiativeTask, 'The task');

  api.post(
    '/api/initiatives/:id/state',
    {
      ...command(
        'updateState',
        'Move the position, change the next action or the resume context',
        body.initiativeStateBody,
        jsonResponse(view.initiativeItem, 'The initiative'),
        ['TaskAssigned'],
      ),
      params: { id },
    },
    onItem((user, params, ...given) => initiatives.updateState(user, params.id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/decisions',
    {
      ...command(
        'addDecision',
        'Record a decision',
        body.decisionBody,
        jsonResponse(view.decisionAnswer, 'The decision'),
      ),
      params: { id },
    },
    onItem((user, params, ...given) => initiatives.addDecision(user, params.id, ...given)),
  );
  api.get(
    '/api/initiatives/:id/decisions/:decision_id',
    {
      operationId: 'getDecision',
      tag: 'Initiatives',
      summary: 'Read a decision',
      params: { id, decision_id: body.decisionRef },
      responses: { 200: jsonResponse(view.decisionAnswer, 'The decision') },
      errors: ['InitiativeNotFound', 'DecisionNotFound'],
    },
    async (c, { user, params }) =>
      c.json({ decision: await initiatives.decision(user, params.id, params.decision_id) }),
  );
  api.post(
    '/api/initiatives/:id/blockers',
    {
      ...command('addBlocker', 'Record a blocker, and block tasks', body.blockerBody, blocker, [
        'TaskNotFound',
        'InvalidTransition',
      ]),
      params: { id },
    },
    onItem((user, params, ...given) => initiatives.addBlocker(user, params.id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/blockers/:blocker_id/bypass',
    {
      ...command('bypassBlocker', 'Bypass a blocker by a workaround, and unblock its tasks', body.bypassBody, blocker, [
        'BlockerNotFound',
        'BlockerResolved',
        'InvalidTransition',
      ]),
      params: { id, blocker_id: body.blockerRef },
    },
    onItem((user, params, ...given) => initiatives.bypassBlocker(user, params.id, params.blocker_id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/blockers/:blocker_id/resolve',
    {
      ...command('resolveBlocker', 'Resolve a blocker, and unblock its tasks', body.resolveBody, blocker, [
        'BlockerNotFound',
        'BlockerResolved',
      ]),
      params: { id, blocker_id: body.blockerRef },
    },
    onItem((user, params, ...given) => initiatives.resolveBlocker(user, params.id, params.blocker_id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/review',
    {
      ...command(
        'reviewInitiative',
        'Accept what a resume has found missing',
        body.reviewBody,
        jsonResponse(view.initiativeItem, 'The initiative'),
      ),
      params: { id },
    },
    onItem((user, params, ...given) => initiatives.review(user, params.id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/sessions',
    {
      ...command(
        'startSession',
        'Start a work session, and resume',
        body.startSessionBody,
        jsonResponse(view.startedSession, 'The work session, and what it has to know'),
        ['SessionNotFound', 'WorkspaceNotUsable'],
      ),
      params: { id },
    },
    onItem((user, params, ...given) => initiatives.startSession(user, params.id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/sessions/:work_session/end',
    {
      ...command('endSession', 'End a work session; its tasks are given back', body.endSessionBody, session, [
        'WorkSessionNotFound',
        'InvalidTransition',
      ]),
      params: { id, work_session: body.workSessionRef },
    },
    onItem((user, params, ...given) => initiatives.endSession(user, params.id, params.work_session, ...given)),
  );
  api.post(
    '/api/initiatives/:id/tasks/next',
    {
      ...command(
        'assignTask',
        "Give the next open task of the position's wave to a work session",
        body.workSessionBody,
        task,
        ['WorkSessionNotFound', 'InvalidTransition', 'ReviewRequired'],
      ),
      responses: { 200: task, 204: { description: 'There is none' } },
      params: { id },
    },
    async (c, { user, params, body: given, idempotencyKey }) => {
      const next = await initiatives.assignTask(user, params.id, given, { idempotencyKey });
      return next === undefined ? c.body(null, 204) : c.json(next);
    },
  );
  const ofTask: ErrorCode[] = ['TaskNotFound', 'TaskAssigned', 'InvalidTransition'];
  api.post(
    '/api/initiatives/:id/tasks/:task_id/start',
    {
      ...command('startTask', 'Start a task', body.workSessionBody, task, [
        ...ofTask,
        'WorkSessionNotFound',
        'ReviewRequired',
      ]),
      params: { id, task_id: body.taskRef },
    },
    onItem((user, params, ...given) => initiatives.startTask(user, params.id, params.task_id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/tasks/:task_id/progress',
    {
      ...command('reportProgress', 'Report progress of a task', body.taskReportBody, task, ofTask),
      params: { id, task_id: body.taskRef },
    },
    onItem((user, params, ...given) => initiatives.reportProgress(user, params.id, params.task_id, ...given)),
  );
  api.post(
    '/api/initiatives/:id/tasks/:task_id/complete',
    {
      ...command('completeTask', 'Complete a task: the position moves on', body.taskReportBody, task, ofTask),
      params: { id, task_id: body.taskRef },
    },
    onItem((user, params, ...given) => initiatives.completeTask(user, params.id, params.task_id, ...given)),
  );
}
