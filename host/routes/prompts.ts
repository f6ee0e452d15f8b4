import { z } from 'zod';
import { systemPrompt } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** The system prompts of the caller's sessions. */
export function promptRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/prompts/:digest',
    {
      operationId: 'getPrompt',
      tag: 'Messages',
      summary: 'Read a system prompt',
      description:
        "By an answer's `metadata.system_prompt_digest`. A template of the session's state is as the agent defines it, " +
        'before its names were filled in.',
      params: { digest: z.string().meta({ description: 'The digest of the prompt' }) },
      responses: { 200: jsonResponse(systemPrompt, 'The prompt') },
      errors: ['PromptNotFound'],
    },
    async (c, { user, params }) => c.json(await client.reads.prompt(user, params.digest)),
  );
}
