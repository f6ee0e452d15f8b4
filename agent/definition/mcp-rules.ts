import { matches } from '../../domain/permissions.ts';
import { TASK_TOOL } from '../../domain/task-tool.ts';
import { MCP_PATTERN, type McpServerDefinition, mcpToolName } from './mcp-server-definition.ts';

// Which tools the permission rules of an agent may name. Those of its MCP servers are known once these are connected.

/** What this needs of an agent's definition. */
interface Ruled {
  tools: readonly { name: string }[];
  permissions?: readonly { permission: string; pattern: string }[] | undefined;
  mcp?: readonly McpServerDefinition[] | undefined;
  subagents?: readonly string[] | undefined;
}

/** What is wrong with the rules of an agent, as far as its definition tells; undefined: nothing. */
export function misplacedMcpRule(agent: Ruled): string | undefined {
  const { tools, permissions = [], mcp = [] } = agent;
  for (const [at, { permission, pattern }] of permissions.entries()) {
    if (isOwn(agent, permission)) continue;
    if (!mcp.some((server) => mayHave(server, permission))) {
      const ofServers = mcp.flatMap(
        (server) => server.tools?.map((tool) => mcpToolName(server.name, tool)) ?? `${server.name}_…`,
      );
      const known = [...tools.map(({ name }) => name), ...ofServers];
      return `permissions.${at}.permission: expected the name of one of its tools (${known.join(', ')})`;
    }
    if (!matches(pattern, '')) return `permissions.${at}.pattern: ${MCP_PATTERN}`;
  }
  return undefined;
}

/**
 * The rules of an agent that name a tool which its MCP servers do not have, each with its field.
 * @param listed the tools of a server, by the names that the agent's model sees; undefined: it was never reached
 */
export function mcpRulesWithoutTool(
  agent: Ruled,
  listed: (server: McpServerDefinition) => readonly string[] | undefined,
): string[] {
  const { permissions = [], mcp = [] } = agent;
  const isMissing = (server: McpServerDefinition, name: string) => listed(server)?.includes(name) === false;
  const ofServers = mcp.flatMap((server, place) =>
    (server.permissions ?? []).flatMap(({ permission }, at) =>
      isMissing(server, mcpToolName(server.name, permission))
        ? [`mcp.${place}.permissions.${at}.permission: the MCP server "${server.name}" has no tool "${permission}"`]
        : [],
    ),
  );
  const own = permissions.flatMap(({ permission }, at) => {
    if (isOwn(agent, permission)) return [];
    // A tool of none of them is one of a subagent.
    const servers = mcp.filter((server) => mayHave(server, permission));
    return servers.length > 0 && servers.every((server) => isMissing(server, permission))
      ? [`permissions.${at}.permission: no MCP server of the agent has the tool "${permission}"`]
      : [];
  });
  return [...ofServers, ...own];
}

function isOwn({ tools, subagents = [] }: Ruled, name: string): boolean {
  return tools.some((tool) => tool.name === name) || (name === TASK_TOOL && subagents.length > 0);
}

/** Whether a server may have a tool, as far as its definition tells. */
function mayHave({ name: server, tools }: McpServerDefinition, name: string): boolean {
  return tools?.some((tool) => mcpToolName(server, tool) === name) ?? name.startsWith(`${server}_`);
}
