import { sessionRef } from '../../wire/requests.ts';
import type { Api } from '../api.ts';
import type { HostParts } from '../context.ts';

/** Erasing sessions and users. */
export function erasureRoutes(api: Api, { client }: HostParts): void {
  api.delete(
    '/api/sessions/:id',
    {
      operationId: 'eraseSession',
      tag: 'Sessions',
      summary: 'Erase a session, its side chats and their files',
      description:
        'Ends what is running and removes every row; workers remove the files within seconds. A project and its files ' +
        'stay. Nothing says afterwards that the session existed: repeated, it is 404.',
      params: { id: sessionRef },
      answers: { 204: { description: 'Erased' } },
      errors: ['SessionNotFound'],
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
      summary: 'Erase everything of your own: sessions, projects, state and files',
      params: {},
      answers: { 204: { description: 'Erased, or there was nothing' } },
    },
    async (c, { user }) => {
      await client.eraseUser(user);
      return c.body(null, 204);
    },
  );
}
