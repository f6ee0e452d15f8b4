import type pg from 'pg';
import type { Logger } from 'pino';
import { Gauge, type Registry } from 'prom-client';
import { fileKeeper } from '../activities/recording/file-keeper.ts';
import type { WorkerMetrics } from '../activities/worker-metrics.ts';
import type { AgentDefinition } from '../agent/definition/define.ts';
import { mcpSecrets } from '../agent/definition/mcp-server-definition.ts';
import { McpTools } from '../agent/mcp/mcp-tools.ts';
import { type Hide, hideTexts } from '../config/secrets.ts';
import type { Contents } from '../store/contents.ts';
import { changedMcpTools, noteMcpAway } from '../store/mcp.ts';
import type { Task } from './periodic/repeat.ts';

const NOTE_MS = 500;

/** What a worker has besides. */
interface Parts {
  agents: { all(): readonly AgentDefinition[] };
  db: pg.Pool;
  log: Logger;
  settings: { refuseChangedTools: boolean; maxFileBytes: number };
}

/** The MCP servers of a worker's agents; nothing is connected yet. */
export function workerMcp(
  { agents, db, log, settings }: Parts,
  { contents, hide, metrics, registry }: { contents: Contents; hide: Hide; metrics: WorkerMetrics; registry: Registry },
): McpTools {
  const { refuseChangedTools, maxFileBytes } = settings;
  const clean = (fields: object) => JSON.parse(hide(JSON.stringify(fields))) as object;
  const mcp = new McpTools({
    agents,
    log: {
      debug: (fields, message) => log.debug(clean(fields), message),
      info: (fields, message) => log.info(clean(fields), message),
      warn: (fields, message) => log.warn(clean(fields), message),
      error: (fields, message) => log.error(clean(fields), message),
    },
    pins: { changed: (agent, server, tools) => changedMcpTools(db, agent, server, tools) },
    keepFile: fileKeeper({ db, contents, log, maxBytes: maxFileBytes }),
    refuseChanged: refuseChangedTools,
    changed: (server, tool) => metrics.mcpToolChanged(server, tool),
  });
  const away = new Gauge({
    name: 'perdure_mcp_servers_away',
    help: 'MCP servers that this worker cannot reach.',
    registers: [],
    collect() {
      this.set(mcp.away().length);
    },
  });
  registry.registerMetric(away);
  return mcp;
}

/** Removes the secrets of the agents' MCP servers, besides what `hide` removes; also of agents that are loaded again. */
export function hidingMcpSecrets(agents: Parts['agents'], hide: Hide): Hide {
  let made: { from: readonly AgentDefinition[]; hide: Hide } | undefined;
  return (text) => {
    const from = agents.all();
    if (made?.from !== from) {
      made = { from, hide: hideTexts(from.flatMap(({ mcp = [] }) => mcpSecrets(mcp))) };
    }
    return made.hide(hide(text));
  };
}

/** Tells hosts which MCP servers this worker cannot reach; nothing if its agents have none. */
export function notingAway(mcp: McpTools, { agents, db }: Pick<Parts, 'agents' | 'db'>, worker: string): Task[] {
  const hasServers = () => agents.all().some((agent) => (agent.mcp ?? []).length > 0);
  let isNoted = false;
  const run = async () => {
    const away = mcp.away();
    // After a reload to agents without servers, once more.
    if (!hasServers() && !isNoted) return;
    await noteMcpAway(db, worker, away);
    isNoted = away.length > 0;
  };
  return [{ name: 'telling of MCP servers', intervalMs: NOTE_MS, run }];
}
