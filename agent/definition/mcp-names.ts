import { type McpServerDefinition, mcpToolName } from './mcp-server-definition.ts';

/** What is known of the tools of an agent's MCP server: all of them, or those that the definition names. */
export interface NamedTools {
  server: string;
  /** The names that the agent's model sees. */
  tools: readonly string[];
}

/**
 * What is wrong with the names that an agent's definition gives to its MCP servers and their tools; undefined: nothing.
 * Which tools a server has is known once it is connected.
 * @param own names of the agent's own tools
 */
export function sharedMcpName(own: readonly string[], servers: readonly McpServerDefinition[]): string | undefined {
  const names = servers.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) return `mcp: the name "${twice}" is used twice`;
  const [shared] = sharedTools(
    own,
    servers.map(({ name, tools = [] }) => ({ server: name, tools: tools.map((tool) => mcpToolName(name, tool)) })),
  );
  return shared?.problem;
}

/** The tools of servers whose name is taken: by the agent's own tools, or by an earlier tool of a server. */
export function sharedTools(
  own: readonly string[],
  servers: readonly NamedTools[],
): { server: string; tool: string; problem: string }[] {
  const holders = new Map(own.map((name) => [name, "the agent's own tools"]));
  return servers.flatMap(({ server, tools }) =>
    tools.flatMap((tool) => {
      const holder = holders.get(tool);
      holders.set(tool, holder ?? `the MCP server "${server}"`);
      if (holder === undefined) return [];
      return [
        { server, tool, problem: `mcp: the tool name "${tool}" of the MCP server "${server}" is one of ${holder}` },
      ];
    }),
  );
}
