import { pageResponse } from '../auth/caller.ts';
import type { App, HostParts } from '../context.ts';

/** Passes all requests outside the API to the page hook, if there is one. */
export function pageRoutes(app: App, { page }: HostParts): void {
  if (!page) return;
  app.get('*', async (c) => (await pageResponse(page, c.req.raw)) ?? c.notFound());
}
