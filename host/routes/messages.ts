import { accepted, notRunAgain, pageOf, uiMessage } from '../../wire/responses.ts';
import { messagesQuery, sessionRef, submitBody } from '../../wire/requests.ts';
import { type Api, json } from '../api.ts';
import type { HostParts } from '../context.ts';

/** The transcript, and messages for those who do not wait for the answer. */
export function messageRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/messages',
    {
      operationId: 'listMessages',
      tag: 'Messages',
      summary: 'Read the transcript',
      description:
        'In order: the last ones, or those before or behind one of them. `hidden` shows those as well that a rewind, ' +
        'an edit, a compaction or a cancel has hidden.',
      params: { id: sessionRef },
      query: messagesQuery,
      answers: { 200: json(pageOf(uiMessage), 'A page; `next` goes into `after` if that was given, else `before`') },
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
        'Once this answers the message is kept, and will be answered. The same `id` with the same parts is the same ' +
        'message: its metadata and model stay those that came first. With other parts it is MessageConflict.',
      command: 'submit',
      params: { id: sessionRef },
      body: submitBody,
      answers: {
        200: json(notRunAgain, 'Accepted before; its run was cancelled or failed, and it does not run again'),
        202: json(accepted, 'Accepted now or before'),
      },
      errors: ['SessionNotFound', 'MessageConflict', 'TooMany', 'ModelNotConfigured'],
    },
    async (c, { user, params, body }) => {
      const { message_id, position, state, code } = await client.submit(user, params.id, body);
      if (state !== 'cancelled' && state !== 'error') return c.json({ message_id, position }, 202);
      return c.json({ message_id, state, ...(code !== null && { code }) }, 200);
    },
  );
}
