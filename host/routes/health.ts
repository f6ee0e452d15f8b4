import type { App, HostParts } from '../context.ts';

/** For those who run this: alive, ready, and counted. Nobody has to say who they are. */
export function healthRoutes(app: App, { client, metrics }: HostParts): void {
  app.get('/healthz', (c) => c.json({ ok: true }));

  app.get('/readyz', async (c) => {
    const { postgres, temporal } = await client.health();
    const ready = postgres && temporal;
    return c.json({ ready, postgres, temporal }, ready ? 200 : 503);
  });

  app.get('/metrics', async (c) => c.body(await metrics.text(), 200, { 'content-type': metrics.contentType }));
}
