import type { z } from 'zod';
import {
  INITIATIVE_COMMAND_NAMES,
  type InitiativeCommand,
  type InitiativeCommandEntry,
  initiativeCommandEntry,
} from '../../domain/initiatives/initiative-commands.ts';
import { INITIATIVE_BODIES, INITIATIVE_PARAMETERS, initiativeRef } from '../../wire/initiative-requests.ts';
import * as view from '../../wire/initiative-views.ts';
import { type Api, jsonResponse, type RouteResponse } from '../api/api.ts';
import type { RouteParts } from '../context.ts';

const TASK = jsonResponse(view.initiativeTask, 'The task');

const RESPONSES: Readonly<Record<InitiativeCommandEntry['answer'], Record<number, RouteResponse>>> = {
  initiative: { 200: jsonResponse(view.initiativeItem, 'The initiative') },
  decision: { 200: jsonResponse(view.decisionAnswer, 'The decision') },
  blocker: { 200: jsonResponse(view.blockerAnswer, 'The blocker') },
  'work session': { 200: jsonResponse(view.workSessionAnswer, 'The work session') },
  'work session and resume': { 200: jsonResponse(view.startedSession, 'The work session, and what it has to know') },
  task: { 200: TASK },
  'task or none': { 200: TASK, 204: { description: 'There is none' } },
};

/** A client's method. Before the body it takes what the path names. */
type CarryOut = (user: string, id: string, ...rest: unknown[]) => Promise<object | undefined>;

/** One route for each entry of the table of initiatives' commands. */
export function initiativeCommandRoutes(api: Api, parts: RouteParts): void {
  for (const name of INITIATIVE_COMMAND_NAMES) commandRoute(api, parts, name);
}

function commandRoute(api: Api, { client }: RouteParts, name: InitiativeCommand): void {
  const { summary, path, answer, errors } = initiativeCommandEntry(name);
  const methods: Readonly<Record<InitiativeCommand, unknown>> = client.initiatives;
  const named = Object.entries(INITIATIVE_PARAMETERS).filter(([parameter]) => path.includes(`:${parameter}`));
  const body: z.ZodType = INITIATIVE_BODIES[name];
  const whole: string = `/api/initiatives/:id${path}`;
  api.post(
    whole,
    {
      operationId: name,
      tag: 'Initiatives',
      summary,
      command: name,
      params: { id: initiativeRef, ...Object.fromEntries(named) },
      body,
      idempotent: true,
      responses: RESPONSES[answer],
      errors: ['InitiativeNotFound', ...errors],
    },
    async (c, { user, params, body: given, idempotencyKey }) => {
      const { id = '', ...fromPath }: Record<string, string> = params;
      const rest = [...Object.values(fromPath), given, { idempotencyKey }];
      const done = await (methods[name] as CarryOut).call(client.initiatives, user, id, ...rest);
      return done === undefined ? c.body(null, 204) : c.json(done);
    },
  );
}
