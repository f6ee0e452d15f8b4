import type { App, HostParts } from '../context.ts';
import { pageOf } from '../auth/caller.ts';

/** Passes all requests outside the API to the page hook, if there is one. */
export function pageRoutes(app: App, { page }: HostParts): void {
  if (!page) return;
  app.get('*', async (c) => (await pageOf(page, c.req.raw)) ?? c.notFound());
}
