import { z } from 'zod';
import { importQuery, sessionRef } from '../../wire/requests.ts';
import { imported } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { RouteParts } from '../context.ts';
import { byteStream } from '../http/byte-stream.ts';
import { plainBytesOf } from '../http/read-body.ts';

const JSON_LINES = 'application/jsonl';

/** Export and import of sessions. */
export function transferRoutes(api: Api, { client, readers }: RouteParts): void {
  api.get(
    '/api/sessions/:id/export',
    {
      operationId: 'exportSession',
      tag: 'Sessions',
      summary: 'Export a session as JSON lines',
      description:
        'A line for the session, those of its attachments, then one for each message, hidden ones too, each followed by those ' +
        'of its parts: all of one moment.',
      params: { id: sessionRef },
      responses: { 200: { mediaType: JSON_LINES, description: 'The lines, as a stream' } },
      errors: ['SessionNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      const release = readers.admit(user, 'export');
      const pieces = client.exportSession(user, params.id, { signal: c.req.raw.signal });
      // Before the response begins: an unknown session is 404.
      const first = await pieces.next().catch((error: unknown) => {
        release();
        throw error;
      });
      const over = () => {
        release();
        // Also if nothing else was read.
        pieces.return().catch(() => {});
      };
      return new Response(byteStream(bytesOf(first, pieces), over), { headers: { 'content-type': JSON_LINES } });
    },
  );

  api.post(
    '/api/import',
    {
      operationId: 'importSession',
      tag: 'Sessions',
      summary: 'Import an export as a new session of your own',
      description:
        'The session begins at chatting, without a project. A line that is refused is named by its number; then nothing is ' +
        'stored. A line has at most 4 MiB, a message with its parts 48 MiB, the whole what PERDURE_MAX_IMPORT says, if it is set.',
      command: 'import',
      params: {},
      query: importQuery,
      rawBody: { [JSON_LINES]: z.string() },
      responses: { 201: jsonResponse(imported, 'The new session') },
      errors: ['InvalidLine', 'WrongOrder', 'ForeignId', 'DuplicateId', 'AgentNotConfigured', 'ModelNotConfigured'],
    },
    async (c, { user, query }) => {
      const { raw } = c.req;
      return c.json(await client.importSession(user, plainBytesOf(raw), { ...query, signal: raw.signal }), 201);
    },
  );
}

/** The bytes of pieces of which the first has been read. */
async function* bytesOf(
  { done, value }: IteratorResult<Uint8Array, void>,
  rest: AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Uint8Array> {
  if (done === true) return;
  yield value;
  yield* rest;
}
