import { stateBody, sessionRef } from '../../wire/requests.ts';
import { stateView } from '../../wire/responses.ts';
import { type Api, jsonResponse, ofSession } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** Reading and changing a session's state. */
export function stateRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/state',
    {
      ...ofSession,
      operationId: 'getState',
      summary: "Read a session's state",
      description: "The session's own keys, the user's with `user:` and everybody's with `app:`.",
      responses: { 200: jsonResponse(stateView, 'The state') },
    },
    async (c, { user, params }) => c.json(await client.state(user, params.id)),
  );

  api.post(
    '/api/sessions/:id/state',
    {
      operationId: 'changeState',
      tag: 'Sessions',
      summary: "Change a session's state",
      description:
        "All changes or none, as one entry of the log. `app:` keys only with an administrator's token; `temp:` keys are dropped.",
      command: 'state',
      params: { id: sessionRef },
      body: stateBody,
      idempotent: true,
      responses: { 200: jsonResponse(stateView, 'The state after it') },
      errors: ['SessionNotFound', 'Forbidden', 'StaleSession'],
    },
    async (c, { user, params, body, idempotencyKey }) =>
      c.json(await client.changeState(user, params.id, body, { idempotencyKey, admin: c.get('admin') })),
  );
}
