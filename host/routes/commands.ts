import { commandAnswer, commandBody, pathParameters } from '../../wire/commands.ts';
import { COMMAND_NAMES, commandEntry, type CommandName, UNSUPPORTED_COMMANDS } from '../../domain/command-table.ts';
import { sessionQuery, sessionRef } from '../../wire/requests.ts';
import { type Api, json } from '../api.ts';
import type { HostParts } from '../context.ts';
import { notSupported } from '../not-supported.ts';

/** One route for each entry of the command table, and for each unsupported command. */
export function commandRoutes(api: Api, parts: HostParts): void {
  for (const name of COMMAND_NAMES) commandRoute(api, parts, name);
  for (const name of UNSUPPORTED_COMMANDS) {
    api.post(
      `/api/sessions/:id/${name}`,
      {
        operationId: name,
        tag: 'Commands',
        summary: `Not supported yet: ${name}`,
        command: name,
        params: { id: sessionRef },
        responses: {},
        errors: ['SessionNotFound', 'NotSupported'],
      },
      async (_c, { user, params }) => {
        await parts.client.reads.sessionId(user, params.id);
        throw notSupported(name);
      },
    );
  }
}

function commandRoute(api: Api, { client }: HostParts, name: CommandName): void {
  const entry = commandEntry(name);
  const body = commandBody(name);
  const command = client.commands[name] as (user: string, session: string, input: object) => Promise<object>;
  const description = {
    operationId: name,
    tag: 'Commands' as const,
    summary: entry.summary,
    command: name,
    ...(body && { body }),
    idempotent: true,
    responses: { 200: json(commandAnswer(name), 'The state of the session afterwards') },
    errors: ['SessionNotFound' as const, ...entry.errors],
  };
  const path: string = `/api/sessions/:id${entry.path}`;
  api[entry.method](
    path,
    { ...description, params: { id: sessionRef, ...pathParameters(entry) } },
    async (c, { user, params, body: given, idempotencyKey }) => {
      const { id = '', ...fromPath }: Record<string, string> = params;
      return c.json(await command(user, id, { ...given, ...fromPath, idempotencyKey }));
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
