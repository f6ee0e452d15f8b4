// The MCP tools of an agent, without a worker: real servers and a real Postgres for the pins.
import path from 'node:path';
import type pg from 'pg';
import {
  type AgentDefinition,
  defineAgent,
  type ToolContext,
  type ToolDefinition,
} from '../../agent/definition/define.ts';
import type { McpServerDefinition } from '../../agent/definition/mcp-server-definition.ts';
import { McpTools, type McpToolsOptions } from '../../agent/mcp/mcp-tools.ts';
import { memorySession, memoryToolContext } from '../../agent/memory/memory-session.ts';
import type { Json } from '../../domain/text.ts';
import { changedMcpTools } from '../../store/mcp.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

/** A server in a process of its own; what it notes is in the file. */
export function stdioServer(
  notes: string,
  { name = 'local', look }: { name?: string; look?: string } = {},
): McpServerDefinition {
  const args = [path.join(import.meta.dirname, 'stdio-main.ts'), notes, ...(look === undefined ? [] : [look])];
  return { name, transport: { type: 'stdio', command: process.execPath, args } };
}

/** An agent with servers and no tools of its own. */
export function agentWith(mcp: McpServerDefinition[], more: Partial<AgentDefinition> = {}): AgentDefinition {
  return defineAgent({
    id: 'with-mcp',
    description: 'Has MCP servers.',
    mode: 'primary',
    prompt: 'Be brief.',
    tools: [],
    ...more,
    mcp,
  });
}

/** A line of the log. */
export type Line = Record<string, unknown> & { msg: string };

/** The tools of agents, as a worker has them. */
export class Client {
  readonly logs: Line[] = [];
  readonly changes: string[] = [];
  readonly mcp: McpTools;
  private readonly agent: AgentDefinition;

  constructor(db: pg.Pool, agents: readonly AgentDefinition[], more: Partial<McpToolsOptions> = {}) {
    const log = (fields: object, msg: string) => void this.logs.push({ ...fields, msg });
    this.agent = agents[0]!;
    this.mcp = new McpTools({
      agents: { all: () => agents },
      log: { debug: () => {}, info: log, warn: log, error: log },
      pins: { changed: (agent, server, tools) => changedMcpTools(db, agent, server, tools) },
      keepFile: () => Promise.resolve({ problem: 'of another type' }),
      refuseChanged: false,
      changed: (server, tool) => void this.changes.push(`${server} ${tool}`),
      ...more,
    });
    afterFile(() => this.mcp.close());
  }

  get tools(): readonly ToolDefinition[] {
    return this.mcp.withTools(this.agent).tools;
  }

  get names(): string[] {
    return this.tools.map(({ name }) => name);
  }

  /** Calls a tool of the first agent. */
  async call(
    name: string,
    input: object = {},
    {
      signal = new AbortController().signal,
      progress = () => {},
    }: { signal?: AbortSignal; progress?(data: Json): void } = {},
  ): Promise<unknown> {
    const tool = this.tools.find((each) => each.name === name)!;
    return tool.execute!(input, contextOf({ signal, progress }));
  }
}

function contextOf(call: { signal: AbortSignal; progress(data: Json): void }): ToolContext {
  const session = memorySession({ agent: agentWith([]), workspaceRoot: scratchDir() });
  return memoryToolContext(session, { tool: 'any', toolCallId: 'call_1', ...call }).ctx;
}
