import { type Api, ofSession } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** Erasing sessions and users. */
export function erasureRoutes(api: Api, { client }: HostParts): void {
  api.delete(
    '/api/sessions/:id',
    {
      ...ofSession,
      operationId: 'eraseSession',
      summary: 'Erase a session, its side chats and their files',
      description:
        'Ends its runs and deletes its rows; workers remove the files within seconds. Its project and the project’s files ' +
        'are kept. No trace of the session remains, so a repeated request gets 404.',
      responses: { 204: { description: 'Erased' } },
    },
    async (c, { user, params }) => {
      await client.eraseSession(user, params.id);
      return c.body(null, 204);
    },
  );

  api.delete(
    '/api/users/me',
    {
      operationId: 'eraseUser',
      tag: 'Operation',
      summary: 'Erase all of your own data: sessions, projects, state and files',
      params: {},
      responses: { 204: { description: 'Erased, or nothing to erase' } },
    },
    async (c, { user }) => {
      await client.eraseUser(user);
      return c.body(null, 204);
    },
  );
}
