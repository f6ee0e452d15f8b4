import type { z } from 'zod';
import { abortOutcome, cancelOutcome, closeOutcome, commandOutcome } from '../../wire/responses.ts';
import type { CommandOutcome } from '../../domain/commands.ts';
import type { ErrorCode } from '../../domain/errors.ts';
import { cancelBody, closeBody, emptyBody, projectBody, sessionQuery, sessionRef } from '../../wire/requests.ts';
import { type Api, json } from '../api.ts';
import type { HostParts } from '../context.ts';
import { notYet } from '../not-yet.ts';

/** Whose session a command is for, and what goes along with every one. */
interface Sent {
  user: string;
  session: string;
  options: { idempotencyKey: string | undefined };
}

interface Command<Body> {
  name: string;
  summary: string;
  body: z.ZodType<Body>;
  answer: z.ZodType;
  errors?: readonly ErrorCode[];
  carryOut: (sent: Sent, body: Body) => Promise<CommandOutcome>;
}

/** Commands that have their names and are not there yet. */
const LATER = ['rewind', 'unrewind', 'branch', 'compact', 'prune', 'answer', 'archive'];

/** The commands of a session: each answers what the session is afterwards. */
export function commandRoutes(api: Api, parts: HostParts): void {
  phaseCommands(api, parts);
  cancelCommands(api, parts);
  for (const name of LATER) {
    api.post(
      `/api/sessions/:id/${name}`,
      {
        operationId: name,
        tag: 'Commands',
        summary: `Not there yet: ${name}`,
        command: name,
        params: { id: sessionRef },
        answers: {},
        errors: ['SessionNotFound', 'NotSupported'],
      },
      async (_c, { user, params }) => {
        await parts.client.reads.sessionId(user, params.id);
        throw notYet(name);
      },
    );
  }
}

function phaseCommands(api: Api, { client: { commands } }: HostParts): void {
  const errors: ErrorCode[] = ['InvalidTransition'];
  route(api, {
    name: 'publish',
    summary: 'Publish what was verified',
    body: emptyBody,
    answer: commandOutcome,
    errors,
    carryOut: ({ user, session, options }) => commands.publish(user, session, options),
  });
  route(api, {
    name: 'revert',
    summary: 'Go back from verifying to building',
    body: emptyBody,
    answer: commandOutcome,
    errors,
    carryOut: ({ user, session, options }) => commands.revert(user, session, options),
  });
  route(api, {
    name: 'open',
    summary: 'Open a project, once for the session',
    body: projectBody,
    answer: commandOutcome,
    errors: ['InvalidTransition', 'ProjectAlreadyLocked', 'ProjectNotFound'],
    carryOut: ({ user, session, options }, { project_id }) => commands.openExisting(user, session, project_id, options),
  });
}

function cancelCommands(api: Api, { client: { commands } }: HostParts): void {
  route(api, {
    name: 'abort',
    summary: 'Stop the run in flight; with none it answers `aborted: false`',
    body: emptyBody,
    answer: abortOutcome,
    carryOut: ({ user, session, options }) => commands.abort(user, session, options),
  });
  route(api, {
    name: 'close',
    summary: 'Close the session; the next command opens it again',
    body: closeBody,
    answer: closeOutcome,
    errors: ['RunInFlight'],
    carryOut: ({ user, session, options }, { abort }) => commands.close(user, session, { ...options, abort }),
  });
  const cancel: Command<z.output<typeof cancelBody>> = {
    name: 'cancel',
    summary: "The phase's own cancel, and an abort of the run in flight",
    body: cancelBody,
    answer: cancelOutcome,
    errors: ['InvalidTransition'],
    carryOut: ({ user, session, options }, { reason }) => commands.cancel(user, session, { ...options, reason }),
  };
  route(api, cancel);
  api.post(
    '/api/cancel',
    { ...describe(cancel), operationId: 'cancelNamed', params: {}, query: sessionQuery },
    async (c, { user, query, body, idempotencyKey }) =>
      c.json(await cancel.carryOut({ user, session: query.session_id, options: { idempotencyKey } }, body)),
  );
}

function route<Body>(api: Api, command: Command<Body>): void {
  api.post(
    `/api/sessions/:id/${command.name}`,
    { ...describe(command), params: { id: sessionRef } },
    async (c, { user, params, body, idempotencyKey }) =>
      c.json(await command.carryOut({ user, session: params.id, options: { idempotencyKey } }, body)),
  );
}

function describe<Body>({ name, summary, body, answer, errors = [] }: Command<Body>) {
  return {
    operationId: name,
    tag: 'Commands' as const,
    summary,
    command: name,
    body,
    idempotent: true,
    answers: { 200: json(answer, 'What the session is afterwards') },
    errors: ['SessionNotFound' as const, ...errors],
  };
}
