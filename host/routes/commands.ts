import { COMMAND_NAMES, commandEntry, type CommandName } from '../../domain/command-table.ts';
import { commandAnswer, commandBody, opensSession, pathParameters } from '../../wire/commands.ts';
import { sessionQuery, sessionRef } from '../../wire/requests.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** One route for each entry of the command table. */
export function commandRoutes(api: Api, parts: HostParts): void {
  for (const name of COMMAND_NAMES) commandRoute(api, parts, name);
}

function commandRoute(api: Api, { client }: HostParts, name: CommandName): void {
  const entry = commandEntry(name);
  const body = commandBody(name);
  const command = client.commands[name] as (user: string, session: string, input: object) => Promise<object>;
  const status = opensSession(name) ? 201 : 200;
  const description = {
    operationId: name,
    tag: 'Commands' as const,
    summary: entry.summary,
    command: name,
    ...(body && { body }),
    idempotent: true,
    responses: {
      [status]: jsonResponse(
        commandAnswer(name),
        status === 201 ? 'The new session' : 'The state of the session afterwards',
      ),
    },
    errors: ['SessionNotFound' as const, ...entry.errors],
  };
  const path: string = `/api/sessions/:id${entry.path}`;
  api[entry.method](
    path,
    { ...description, params: { id: sessionRef, ...pathParameters(entry) } },
    async (c, { user, params, body: given, idempotencyKey }) => {
      const { id = '', ...fromPath }: Record<string, string> = params;
      return c.json(await command(user, id, { ...given, ...fromPath, idempotencyKey }), status);
    },
  );
  if (entry.alias === undefined) return;
  api[entry.method](
    entry.alias,
    { ...description, operationId: `${name}Named`, params: {}, query: sessionQuery },
    async (c, { user, query, body: given, idempotencyKey }) =>
      c.json(await command(user, query.session_id, { ...given, idempotencyKey })),
  );
}
