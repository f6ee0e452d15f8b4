import { agentsAnswer, modelsAnswer } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** The agents and the models that a user can choose from. */
export function modelRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/agents',
    {
      operationId: 'listAgents',
      tag: 'Sessions',
      summary: 'List the agents to open sessions with',
      params: {},
      responses: { 200: jsonResponse(agentsAnswer, 'The agents') },
    },
    (c) =>
      c.json({
        default: client.defaultAgent ?? null,
        items: client.agents().map(({ id, description = null, uses_phases = null }) => {
          return { id, description, uses_phases };
        }),
      }),
  );

  api.get(
    '/api/models',
    {
      operationId: 'listModels',
      tag: 'Sessions',
      summary: 'List the models to choose from',
      description:
        'With their limits in tokens and their variants. Any other model of a configured provider can be named, too; its ' +
        'limits count as those of the smallest current models.',
      params: {},
      responses: { 200: jsonResponse(modelsAnswer, 'The models') },
    },
    (c) => c.json(client.models()),
  );
}
