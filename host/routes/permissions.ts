import { outputBody, ruleRef, sessionRef, toolCallRef } from '../../wire/requests.ts';
import { outputTaken, permissionRules } from '../../wire/responses.ts';
import { type Api, jsonResponse, ofSession } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** Permission rules, and the outcomes of tool calls that pages carry out. */
export function permissionRoutes(api: Api, { client }: HostParts): void {
  api.get(
    '/api/sessions/:id/permissions',
    {
      ...ofSession,
      operationId: 'listPermissions',
      summary: 'List the permission rules in force',
      description:
        "Those of the agent's definition, of the project and of the session, each in the order in which they were made; of a " +
        'subagent then those of each session above.',
      responses: { 200: jsonResponse(permissionRules, 'The rules') },
    },
    async (c, { user, params }) => c.json(await client.permissions(user, params.id)),
  );

  api.delete(
    '/api/sessions/:id/permissions/:rule_id',
    {
      operationId: 'revokePermission',
      tag: 'Sessions',
      summary: 'Take back a permission rule of the session or its project',
      command: 'revokePermission',
      params: { id: sessionRef, rule_id: ruleRef },
      responses: { 204: { description: 'It was taken back' } },
      errors: ['SessionNotFound', 'RuleNotFound', 'ManifestRule'],
    },
    async (c, { user, params }) => {
      await client.revokePermission(user, params.id, params.rule_id);
      return c.body(null, 204);
    },
  );

  api.post(
    '/api/sessions/:id/tool-outputs/:tool_call_id',
    {
      operationId: 'giveToolOutput',
      tag: 'Messages',
      summary: 'Give the outcome of a tool call that the page carries out',
      description: 'For a tool without `execute`, while its call waits. The same again changes nothing.',
      command: 'giveOutput',
      params: { id: sessionRef, tool_call_id: toolCallRef },
      body: outputBody,
      responses: { 200: jsonResponse(outputTaken, 'The turn goes on') },
      errors: ['SessionNotFound', 'NotWaiting'],
    },
    async (c, { user, params, body }) => {
      const given = body.error === undefined ? { output: body.output } : { error: body.error };
      return c.json(await client.giveOutput(user, params.id, params.tool_call_id, given));
    },
  );
}
