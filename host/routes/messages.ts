import { messagesQuery, sessionRef, submitBody } from '../../wire/requests.ts';
import { accepted, notRunAgain, pageOf, uiMessage } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** The transcript, and sending messages without waiting for the answer. */
export function messageRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/messages',
    {
      operationId: 'listMessages',
      tag: 'Messages',
      summary: 'Read the transcript',
      description:
        'The newest messages, or those before or after a given message, oldest first. `hidden` includes messages hidden by ' +
        'a rewind, edit, compaction or cancel. `times` adds when each message was stored, and how long reasoning took.',
      params: { id: sessionRef },
      query: messagesQuery,
      responses: {
        200: jsonResponse(
          pageOf(uiMessage),
          'A page; pass `next` as `after` if the request had `after`, else as `before`',
        ),
      },
      errors: ['SessionNotFound', 'MessageNotFound'],
    },
    async (c, { user, params, query }) => c.json(await client.reads.messages(user, params.id, query)),
  );

  api.post(
    '/api/sessions/:id/messages',
    {
      operationId: 'submitMessage',
      tag: 'Messages',
      summary: 'Send a message without waiting for its answer',
      description:
        'After a successful response the message is stored and will be answered. Sending the same `id` with the same parts ' +
        'again has no effect: metadata and model stay as first sent. With other parts it is MessageConflict.',
      command: 'submit',
      params: { id: sessionRef },
      body: submitBody,
      responses: {
        200: jsonResponse(notRunAgain, 'Accepted earlier; its run was cancelled or failed and is not repeated'),
        202: jsonResponse(accepted, 'Accepted now or earlier'),
      },
      errors: [
        'SessionNotFound',
        'ChildSession',
        'MessageConflict',
        'TooMany',
        'ModelNotConfigured',
        'ModalityNotSupported',
      ],
    },
    async (c, { user, params, body }) => {
      const { message_id, position, state, code } = await client.submit(user, params.id, body, {
        attributes: c.get('attributes'),
      });
      if (state !== 'cancelled' && state !== 'error') return c.json({ message_id, position }, 202);
      return c.json({ message_id, state, ...(code !== null && { code }) }, 200);
    },
  );
}
