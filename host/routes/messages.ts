import { messagesQuery, submitBody } from '../../domain/wire.ts';
import { parseInput, readBody } from '../body.ts';
import type { App, HostParts } from '../context.ts';

/** The transcript, and messages for those who do not wait for the answer. */
export function messageRoutes(app: App, { client, maxBodyBytes }: HostParts): void {
  app.get('/api/sessions/:id/messages', async (c) =>
    c.json(await client.reads.messages(c.get('user'), c.req.param('id'), parseInput(messagesQuery, c.req.query()))),
  );

  app.post('/api/sessions/:id/messages', async (c) => {
    c.set('command', 'submit');
    const body = await readBody(c.req.raw, submitBody, maxBodyBytes);
    const { message_id, position } = await client.submit(c.get('user'), c.req.param('id'), body);
    return c.json({ message_id, position }, 202);
  });

  app.delete('/api/sessions/:id/messages/:mid', async (c) => {
    c.set('command', 'cancelQueued');
    const { id, mid } = c.req.param();
    const idempotencyKey = c.req.header('idempotency-key');
    return c.json(await client.commands.cancelQueued(c.get('user'), id, mid, { idempotencyKey }));
  });
}
