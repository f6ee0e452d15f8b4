import { openBody, sessionsQuery } from '../../domain/wire.ts';
import { parseInput, readBody } from '../body.ts';
import type { App, HostParts } from '../context.ts';

/** Opening, listing and looking at sessions. */
export function sessionRoutes(app: App, { client, maxBodyBytes }: HostParts): void {
  app.post('/api/sessions', async (c) => {
    c.set('command', 'open');
    const body = await readBody(c.req.raw, openBody, maxBodyBytes);
    const view = await client.openSession(c.get('user'), body);
    return c.json(view, 201, { location: `/api/sessions/${view.session.session_id}` });
  });

  app.get('/api/sessions', async (c) =>
    c.json(await client.reads.sessions(c.get('user'), parseInput(sessionsQuery, c.req.query()))),
  );

  app.get('/api/sessions/:id', async (c) => c.json(await client.reads.session(c.get('user'), c.req.param('id'))));
}
