import { createHash } from 'node:crypto';
import { canonicalJson } from '../../domain/canonical-json.ts';
import type { ToolDefinition } from '../definition/define.ts';
import { type McpServerDefinition, mcpToolName } from '../definition/mcp-server-definition.ts';
import { toolJsonSchema } from '../definition/tool-json-schema.ts';
import { type KeepFile, callOutput } from './call-output.ts';
import type { McpConnection } from './mcp-connection.ts';
import type { ListedTool } from './mcp-session.ts';

/** Time limit of a call. */
const CALL_MS = 60_000;

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** A server as one agent uses it. */
export interface UsedServer {
  server: McpServerDefinition;
  connection: McpConnection;
  keepFile: KeepFile;
}

/** A tool as a turn's catalog has it. */
export interface ShownTool {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
}

/** What a pin holds of a tool: everything that its model or its treatment depends on. */
export function digestOf({ description, inputSchema, annotations }: ListedTool): Uint8Array {
  return createHash('sha256').update(canonicalJson({ description, inputSchema, annotations })).digest();
}

/** A server's tool as a tool of an agent, or why it cannot be one. */
export function mcpToolOf(
  used: UsedServer,
  tool: ListedTool,
): { tool: ToolDefinition; isDestructive: boolean } | { problem: string } {
  const name = mcpToolName(used.server.name, tool.name);
  if (!TOOL_NAME.test(name)) return { problem: `the name "${name}" is longer than 64 characters` };
  const { readOnlyHint, idempotentHint, destructiveHint } = tool.annotations ?? {};
  const definition = callingTool(used, tool.name, {
    name,
    description: tool.description ?? tool.title ?? tool.name,
    input: tool.inputSchema,
    repeatable: used.server.repeatable?.[tool.name] ?? (readOnlyHint === true || idempotentHint === true),
  });
  try {
    toolJsonSchema(definition);
  } catch (error) {
    return { problem: `its input schema is invalid: ${(error as Error).message}` };
  }
  return { tool: definition, isDestructive: destructiveHint === true };
}

/**
 * A tool that the model was shown when its turn began, and that the server does not have now, or not like this. Its calls fail
 * unless the server has it again.
 */
export function formerTool(used: UsedServer, shown: ShownTool): ToolDefinition {
  const { name, description, input_schema: input } = shown;
  return {
    ...{ name, description, input },
    execute: () => {
      throw new Error(
        used.connection.isConnected
          ? 'the MCP server does not have this tool any more, or has changed it'
          : 'the MCP server cannot be reached now',
      );
    },
  };
}

function callingTool(
  { server, connection, keepFile }: UsedServer,
  tool: string,
  definition: Omit<ToolDefinition, 'execute'>,
): ToolDefinition {
  const repeatable = definition.repeatable === true;
  const execute: ToolDefinition['execute'] = async (input, ctx) => {
    const request = { tool, input: input as Record<string, unknown>, repeatable };
    const result = await connection.call(request, {
      signal: ctx.signal,
      timeoutMs: server.timeout ?? CALL_MS,
      onProgress: (progress) => ctx.progress(progress),
    });
    return callOutput(result, (file) => keepFile(ctx.sessionId, file));
  };
  return { ...definition, execute };
}
