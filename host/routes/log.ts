import { logQuery, sessionRef, toolCallRef } from '../../wire/requests.ts';
import { logEntry, pageOf } from '../../wire/responses.ts';
import { type Api, jsonResponse, ofSession } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** A session's event log, and full tool outputs. */
export function logRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/log',
    {
      ...ofSession,
      operationId: 'listLog',
      summary: "Read a session's event log, oldest first",
      query: logQuery,
      responses: { 200: jsonResponse(pageOf(logEntry), 'A page; pass `next` as `after`') },
    },
    async (c, { user, params, query }) => c.json(await client.reads.log(user, params.id, query)),
  );

  api.get(
    '/api/sessions/:id/tool-outputs/:tool_call_id',
    {
      operationId: 'getToolOutput',
      tag: 'Sessions',
      summary: 'Read the full output of a tool call that was truncated for the model',
      params: { id: sessionRef, tool_call_id: toolCallRef },
      responses: {
        200: { mediaType: 'text/plain', description: 'The output as plain text' },
      },
      errors: ['SessionNotFound', 'ToolOutputNotFound'],
    },
    async (c, { user, params }) => c.text(await client.reads.toolOutput(user, params.id, params.tool_call_id)),
  );
}
