import type { App, HostParts } from '../context.ts';

/** The chat page: whatever is asked for outside the API goes to the page hook, where there is one. */
export function pageRoutes(app: App, { page }: HostParts): void {
  if (!page) return;
  app.get('*', async (c) => (await page(c.req.raw)) ?? c.notFound());
}
