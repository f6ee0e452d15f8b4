import { projectTodos } from '../../wire/responses.ts';
import { type Api, jsonResponse, ofSession } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** The todos of a session's project, which its tools write. */
export function todoRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/todos',
    {
      ...ofSession,
      operationId: 'listTodos',
      summary: "List the todos of a session's project, oldest first",
      description: 'A session without a project has none. Only tools change them.',
      responses: { 200: jsonResponse(projectTodos, 'The todos') },
    },
    async (c, { user, params }) => c.json(await client.reads.todos(user, params.id)),
  );
}
