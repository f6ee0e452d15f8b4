import { z } from 'zod';
import { searchQuery } from '../../wire/requests.ts';
import { searchHit } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** Full-text search. */
export function searchRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/search',
    {
      operationId: 'search',
      tag: 'Messages',
      summary: 'Search your own messages and the answers to them, best matches first',
      description:
        'Also finds hidden messages, which are marked. A turn is found once it is over. Words match in any case: as ' +
        'they are written, or, if PERDURE_SEARCH_LANGUAGE names a language, in all their forms.',
      params: {},
      query: searchQuery,
      responses: { 200: jsonResponse(z.object({ items: z.array(searchHit) }), 'The best matches') },
    },
    async (c, { user, query }) => c.json(await client.reads.search(user, query, { signal: c.req.raw.signal })),
  );
}
