import { logQuery } from '../../domain/wire.ts';
import { parseInput } from '../body.ts';
import type { App, HostParts } from '../context.ts';

/** A session's event log, and what tools put aside. */
export function logRoutes(app: App, { client }: HostParts): void {
  app.get('/api/sessions/:id/log', async (c) =>
    c.json(await client.reads.log(c.get('user'), c.req.param('id'), parseInput(logQuery, c.req.query()))),
  );

  app.get('/api/sessions/:id/tool-outputs/:tool_call_id', async (c) => {
    const { id, tool_call_id } = c.req.param();
    return c.text(await client.reads.toolOutput(c.get('user'), id, tool_call_id), 200, {
      // What a tool has read somewhere must not run as a page of ours.
      'x-content-type-options': 'nosniff',
      'content-security-policy': 'sandbox',
    });
  });
}
