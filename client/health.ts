import type { Client } from '@temporalio/client';
import type { Db } from '../store/db.ts';
import { workersAgents } from '../store/leases.ts';
import { mcpAway } from '../store/mcp.ts';
import { type AgentDifference, agentDifference, type Catalog } from './catalog.ts';
import { withinMs } from './deadline.ts';

const HEALTH_MS = 1_000;

/** What a client's servers and workers lack. */
export interface Health {
  postgres: boolean;
  temporal: boolean;
  agents?: AgentDifference;
  /** Names of MCP servers that some worker cannot reach. */
  mcp?: { away: string[] };
}

/** Asks Postgres and Temporal, for a second each. */
export async function healthOf({
  db,
  temporal,
  catalog,
}: {
  db: Db;
  temporal: Client;
  catalog: Catalog | undefined;
}): Promise<Health> {
  const deadline = Date.now() + HEALTH_MS;
  const asked = temporal.connection.withDeadline(deadline, () => temporal.workflowService.getSystemInfo({}));
  const [postgres, server] = await Promise.allSettled([
    withinMs(HEALTH_MS, Promise.all([workersAgents(db), mcpAway(db)])),
    withinMs(HEALTH_MS, asked),
  ]);
  const [workers, away] = postgres.status === 'fulfilled' ? postgres.value : [[], []];
  const agents = agentDifference(catalog, workers);
  const reached = { postgres: postgres.status === 'fulfilled', temporal: server.status === 'fulfilled' };
  return { ...reached, ...(agents && { agents }), ...(away.length > 0 && { mcp: { away } }) };
}
