import type { Client } from '@temporalio/client';
import pTimeout from 'p-timeout';
import type { Db } from '../store/db.ts';
import { isReadOnly } from '../store/is-read-only.ts';
import { workersAgents } from '../store/leases.ts';
import { mcpAway } from '../store/mcp.ts';
import { type AgentDifference, agentDifference, type Catalog } from './catalog.ts';

const HEALTH_MS = 1_000;

/** What a client's servers and workers lack. */
export interface Health {
  /** It can be reached, and takes writes. */
  postgres: boolean;
  temporal: boolean;
  /** Postgres can be reached, but takes no writes. */
  read_only?: true;
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
  // gRPC's own deadline is not enough: it is not checked between two attempts.
  const inTime = { milliseconds: HEALTH_MS };
  const [postgres, server] = await Promise.allSettled([pTimeout(workersOf(db), inTime), pTimeout(asked, inTime)]);
  const temporalHealth = { temporal: server.status === 'fulfilled' };
  if (postgres.status === 'rejected') return { postgres: false, ...temporalHealth };
  if (postgres.value === 'read-only') return { postgres: false, ...temporalHealth, read_only: true };
  const { workers, away } = postgres.value;
  const agents = agentDifference(catalog, workers);
  return {
    ...{ postgres: true, ...temporalHealth },
    ...(agents && { agents }),
    ...(away.length > 0 && { mcp: { away } }),
  };
}

/** The agents of the workers, and the MCP servers that are away. A standby has no tables of workers. */
async function workersOf(db: Db): Promise<{ workers: string[][]; away: string[] } | 'read-only'> {
  if (await isReadOnly(db)) return 'read-only';
  const [workers, away] = await Promise.all([workersAgents(db), mcpAway(db)]);
  return { workers, away };
}
