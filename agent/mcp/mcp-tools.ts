import { createHash } from 'node:crypto';
import pTimeout from 'p-timeout';
import { canonicalJson } from '../../domain/canonical-json.ts';
import { MCP_RULE, type PermissionRule } from '../../domain/permissions.ts';
import { type AgentDefinition, DefinitionError, manifestRules, type ToolDefinition } from '../definition/define.ts';
import { sharedTools } from '../definition/mcp-names.ts';
import { mcpRulesWithoutTool } from '../definition/mcp-rules.ts';
import { type McpServerDefinition, placeOf, mcpToolName } from '../definition/mcp-server-definition.ts';
import { toolJsonSchema } from '../definition/tool-json-schema.ts';
import { toolCatalog } from '../prompt/assemble-prompt.ts';
import type { KeepFile } from './call-output.ts';
import { loadMcpSdk } from './load-mcp-sdk.ts';
import { McpConnection, type McpLog, errorReason } from './mcp-connection.ts';
import type { ListedTool } from './mcp-session.ts';
import { mcpToolOf, digestOf, formerTool, type ShownTool, type UsedServer } from './mcp-tool.ts';

/** Keeps the digest of each tool as an agent's version first saw it, for all workers. */
export interface ToolPins {
  /** Pins what is new. @returns the names of the tools whose pinned digest is another one */
  changed(
    agent: { id: string; version: string },
    server: string,
    tools: ReadonlyMap<string, Uint8Array>,
  ): Promise<readonly string[]>;
}

export interface McpToolsOptions {
  agents: { all(): readonly AgentDefinition[] };
  log: McpLog & { error(fields: object, message: string): void };
  pins: ToolPins;
  keepFile: KeepFile;
  /** Tools whose description has changed are left out. */
  refuseChanged: boolean;
  /** Counts tools whose description has changed. */
  changed(server: string, tool: string): void;
  /** Most time for connecting to a server and listing its tools, in milliseconds; default 30,000. */
  connectMs?: number;
}

const CONNECT_MS = 30_000;
/** A worker starts without the servers that need longer than this. */
const START_MS = 10_000;

interface Use extends UsedServer {
  agent: AgentDefinition;
  /** The names of the tools that the server has, as the agent's model sees them; undefined: it was never reached. */
  listed?: readonly string[];
  /** Those that the agent gets. */
  tools: ToolDefinition[];
  /** Of these the ones that are marked as destructive. */
  destructive: ReadonlySet<ToolDefinition>;
}

/** The MCP servers of a worker's agents, and the tools that they have now. Servers with the same transport share a connection. */
export class McpTools {
  private readonly options: McpToolsOptions;
  private readonly connections = new Map<string, McpConnection>();
  private readonly noted = new Set<string>();
  private uses: Use[] = [];
  private known: readonly AgentDefinition[] | undefined;
  /** Agents with the tools of their servers, by the agents without. */
  private combined = new WeakMap<AgentDefinition, AgentDefinition>();
  private isClosed = false;

  constructor(options: McpToolsOptions) {
    this.options = options;
  }

  /**
   * Connects to the servers. Waits for those that answer soon; the others are tried again and again.
   * @throws {DefinitionError} the SDK is not installed; a tool's name is taken: it names both; a permission rule names a tool that
   * no server has
   */
  async start(): Promise<void> {
    if (!this.options.agents.all().some(hasServers)) return;
    await loadMcpSdk();
    this.follow();
    const tried = Promise.all([...this.connections.values()].map((connection) => connection.tried));
    await pTimeout(tried, { milliseconds: START_MS, message: false });
    for (const agent of this.known ?? []) {
      const [shared] = this.sharedOf(agent);
      const problem = shared?.problem ?? this.rulesWithoutTool(agent)[0];
      if (problem !== undefined) throw new DefinitionError(`agent "${agent.id}": ${problem}`);
    }
  }

  /** The agent with the tools that its servers have now. The same object as long as they do not change. */
  withTools(agent: AgentDefinition): AgentDefinition {
    if (!hasServers(agent)) return agent;
    this.follow();
    const known = this.combined.get(agent);
    if (known) return known;
    const taken = new Set(agent.tools.map(({ name }) => name));
    const isFree = ({ name }: ToolDefinition) => !taken.has(name) && taken.add(name);
    const tools = this.usesOf(agent).flatMap((use) => use.tools.filter(isFree));
    const combined = { ...agent, tools: [...agent.tools, ...tools] };
    this.combined.set(agent, combined);
    return combined;
  }

  /**
   * The permission rules of an agent's manifest. Before all others is one for each tool of a server that is marked as
   * destructive: calls of it ask, unless another rule matches.
   */
  rulesOf(agent: AgentDefinition): PermissionRule[] {
    const { tools } = this.withTools(agent);
    const uses = this.usesOf(agent);
    const asking = tools.filter((tool) => uses.some(({ destructive }) => destructive.has(tool)));
    return [...asking.map(({ name }) => asksFor(name)), ...manifestRules(agent)];
  }

  /**
   * The agent with the tools of servers that its model was shown when the turn began, whatever the servers have now.
   * @param catalog the turn's tool catalog, as canonical JSON
   */
  withShownTools(agent: AgentDefinition, catalog: string): AgentDefinition {
    const now = this.withTools(agent);
    if (now === agent || toolCatalog(now.tools) === catalog) return now;
    const own = new Set(agent.tools.map(({ name }) => name));
    const current = new Map(now.tools.map((tool) => [tool.name, tool]));
    const shown = (JSON.parse(catalog) as ShownTool[]).filter(({ name }) => !own.has(name));
    const tools = shown.flatMap((each) => {
      const tool = current.get(each.name);
      if (tool && isShown(tool, each)) return [tool];
      const use = this.usesOf(agent).find(({ server }) => each.name.startsWith(`${server.name}_`));
      return use ? [formerTool(use, each)] : [];
    });
    return { ...agent, tools: [...agent.tools, ...tools] };
  }

  /**
   * The agent's tools, for a call of one of them: if its server was never reached, or does not have it any more, the call fails
   * with a reason.
   */
  toolsOfCall(agent: AgentDefinition, name: string): readonly ToolDefinition[] {
    const { tools } = this.withTools(agent);
    if (tools.some((tool) => tool.name === name)) return tools;
    const use = this.usesOf(agent).find(({ server }) => name.startsWith(`${server.name}_`));
    return use ? [...tools, formerTool(use, { name, description: name, input_schema: { type: 'object' } })] : tools;
  }

  /** Names of the servers that are not connected. */
  away(): string[] {
    const away = this.uses.filter(({ connection }) => !connection.isConnected).map(({ server }) => server.name);
    return [...new Set(away)].toSorted();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.all([...this.connections.values()].map((connection) => connection.close()));
  }

  private usesOf(agent: AgentDefinition): Use[] {
    return this.uses.filter((use) => use.agent === agent);
  }

  private sharedOf(agent: AgentDefinition) {
    const own = agent.tools.map(({ name }) => name);
    const named = this.usesOf(agent).map(({ server, tools }) => ({
      server: server.name,
      tools: tools.map(({ name }) => name),
    }));
    return sharedTools(own, named);
  }

  /** Connects to the servers of agents that were loaded again, and leaves those that none has any more. */
  private follow(): void {
    const agents = this.options.agents.all();
    if (agents === this.known || this.isClosed) return;
    this.known = agents;
    this.uses = [];
    for (const agent of agents) for (const server of agent.mcp ?? []) this.use(agent, server);
    const used = new Set(this.uses.map(({ connection }) => connection));
    for (const [transport, connection] of this.connections) {
      if (used.has(connection)) continue;
      this.connections.delete(transport);
      void connection.close();
    }
  }

  private use(agent: AgentDefinition, server: McpServerDefinition): void {
    const key = canonicalJson(server.transport);
    const known = this.connections.get(key);
    const connection = known ?? this.connect(server);
    this.connections.set(key, connection);
    const use = {
      agent,
      server,
      connection,
      keepFile: this.options.keepFile,
      tools: [],
      destructive: new Set<never>(),
    };
    this.uses.push(use);
    if (known?.tools === undefined) return;
    this.take(use, known.tools).catch((error: unknown) =>
      this.options.log.warn(
        { reason: errorReason(error), agent: agent.id, server: server.name },
        'the tools of an MCP server were not taken',
      ),
    );
  }

  private connect({ name, transport }: McpServerDefinition): McpConnection {
    const { log, connectMs = CONNECT_MS } = this.options;
    const connection: McpConnection = new McpConnection({
      ...{ server: name, transport, connectMs, log },
      take: async (tools) => {
        for (const use of this.uses) if (use.connection === connection) await this.take(use, tools);
      },
    });
    return connection;
  }

  /** Makes the tools of an agent from those that a server lists. */
  private async take(use: Use, listed: readonly ListedTool[]): Promise<void> {
    const { agent, server } = use;
    const offered = listed.filter(({ name }) => server.tools?.includes(name) ?? true);
    for (const name of server.tools ?? []) {
      if (!listed.some((tool) => tool.name === name)) this.leaveOut(use, name, 'the server does not have it');
    }
    const digests = new Map(offered.map((tool) => [tool.name, digestOf(tool)]));
    const version = versionOf(agent);
    const changed = new Set(await this.options.pins.changed({ id: agent.id, version }, server.name, digests));
    const made = offered.flatMap((tool) => {
      if (changed.has(tool.name) && this.isRefused(use, tool)) return [];
      const each = mcpToolOf(use, tool);
      if ('tool' in each) return [each];
      this.leaveOut(use, tool.name, each.problem);
      return [];
    });
    use.listed = listed.map(({ name }) => mcpToolName(server.name, name));
    use.tools = made.map(({ tool }) => tool);
    use.destructive = new Set(made.filter(({ isDestructive }) => isDestructive).map(({ tool }) => tool));
    this.combined.delete(agent);
    for (const { server: of, tool, problem } of this.sharedOf(agent))
      if (of === server.name) this.leaveOut(use, tool, problem);
    for (const problem of this.rulesWithoutTool(agent))
      if (this.isNew(`${agent.id} ${problem}`))
        this.options.log.error({ agent: agent.id, reason: problem }, 'a permission rule has no effect');
  }

  private rulesWithoutTool(agent: AgentDefinition): string[] {
    const uses = this.usesOf(agent);
    return mcpRulesWithoutTool(agent, (server) => uses.find((use) => use.server === server)?.listed);
  }

  /** Notes that a tool is not as it was when the agent's version first saw it. */
  private isRefused({ agent, server }: Use, tool: ListedTool): boolean {
    const { refuseChanged, log } = this.options;
    const fields = { agent: agent.id, server: server.name, tool: tool.name };
    if (this.isNew(`${canonicalJson(fields)} ${Buffer.from(digestOf(tool)).toString('hex')}`)) {
      this.options.changed(server.name, tool.name);
      log.error(
        fields,
        `an MCP server has changed a tool since this agent first saw it${refuseChanged ? ': it is left out' : ''}`,
      );
    }
    return refuseChanged;
  }

  private leaveOut({ agent, server }: Use, tool: string, reason: string): void {
    const fields = { agent: agent.id, server: server.name, tool };
    if (this.isNew(`${canonicalJson(fields)} ${reason}`))
      this.options.log.error({ ...fields, reason }, 'a tool of an MCP server is left out');
  }

  /** Each problem is logged once, not with every list. */
  private isNew(problem: string): boolean {
    const isNew = !this.noted.has(problem);
    this.noted.add(problem);
    return isNew;
  }
}

function asksFor(name: string): PermissionRule {
  return { rule_id: MCP_RULE + name, permission: name, pattern: '*', action: 'ask', source: 'manifest' };
}

function isShown(tool: ToolDefinition, shown: ShownTool): boolean {
  return (
    tool.description === shown.description && canonicalJson(toolJsonSchema(tool)) === canonicalJson(shown.input_schema)
  );
}

function hasServers({ mcp }: AgentDefinition): boolean {
  return mcp !== undefined && mcp.length > 0;
}

/** Changes with what an agent's author writes: the prompt, if it is a text, its own tools, and which servers it has. */
function versionOf({ prompt, tools, mcp = [] }: AgentDefinition): string {
  const servers = mcp.map(({ transport, ...server }) => ({
    ...server,
    place: placeOf(transport),
    ...(transport.type === 'stdio' && { args: transport.args ?? [] }),
  }));
  const written = { prompt: typeof prompt === 'string' ? prompt : null, tools: toolCatalog(tools), servers };
  return createHash('sha256').update(canonicalJson(written)).digest('hex');
}
