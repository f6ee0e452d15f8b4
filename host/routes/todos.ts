import { sessionRef } from '../../wire/requests.ts';
import { projectTodos } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** The todos of a session's project, which its tools write. */
export function todoRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/todos',
    {
      operationId: 'listTodos',
      tag: 'Sessions',
      summary: "List the todos of a session's project, oldest first",
      description: 'A session without a project has none. Only tools change them.',
      params: { id: sessionRef },
      responses: { 200: jsonResponse(projectTodos, 'The todos') },
      errors: ['SessionNotFound'],
    },
    async (c, { user, params }) => c.json(await client.reads.todos(user, params.id)),
  );
}
