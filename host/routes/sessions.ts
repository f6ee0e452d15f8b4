import { z } from 'zod';
import { openBody, renameBody, sessionsQuery } from '../../wire/requests.ts';
import { pageOf, sessionView } from '../../wire/responses.ts';
import { type Api, jsonResponse, ofSession } from '../api/api.ts';
import type { RouteParts } from '../context.ts';

/** Opening, listing and reading sessions. */
export function sessionRoutes(api: Api, { client, basePath }: RouteParts): void {
  api.post(
    '/api/sessions',
    {
      operationId: 'openSession',
      tag: 'Sessions',
      summary: 'Open a session',
      description:
        'All fields are optional. An unknown `project_id` creates that project. `metadata.ephemeral: true` marks a side chat, which lists exclude.',
      command: 'open',
      params: {},
      body: openBody,
      responses: { 201: jsonResponse(sessionView, 'The session', { location: z.string() }) },
      errors: ['ProjectNotFound', 'ModelNotConfigured', 'AgentNotConfigured'],
    },
    async (c, { user, body }) => {
      const view = await client.openSession(user, body);
      return c.json(view, 201, { location: `${basePath}/api/sessions/${view.session.session_id}` });
    },
  );

  api.get(
    '/api/sessions',
    {
      operationId: 'listSessions',
      tag: 'Sessions',
      summary: 'List your own sessions, newest first',
      description: 'Excludes side chats and, unless `archived` is true, archived sessions.',
      params: {},
      query: sessionsQuery,
      responses: { 200: jsonResponse(pageOf(sessionView), 'A page; pass `next` as `after`') },
    },
    async (c, { user, query }) => c.json(await client.reads.sessions(user, query)),
  );

  api.get(
    '/api/sessions/:id',
    {
      ...ofSession,
      operationId: 'getSession',
      summary: 'Read a session',
      responses: { 200: jsonResponse(sessionView, 'The session') },
    },
    async (c, { user, params }) => c.json(await client.reads.session(user, params.id)),
  );

  api.post(
    '/api/sessions/:id/rename',
    {
      ...ofSession,
      operationId: 'renameSession',
      summary: 'Give a session a title, which is in its metadata',
      command: 'rename',
      body: renameBody,
      responses: { 200: jsonResponse(sessionView, 'The session') },
    },
    async (c, { user, params, body }) => c.json(await client.rename(user, params.id, body)),
  );
}
