import { z } from 'zod';
import { call, column, type Db } from './db.ts';
import { WORKER_LIVES } from './leases.ts';

const nothing = z.unknown().transform(() => {});

/**
 * Pins the tools of a server that a version of an agent has not seen yet.
 * @param agent.version in hex
 * @param tools the digest of each tool
 * @returns the names of those whose pinned digest is another one
 */
export function changedMcpTools(
  db: Db,
  agent: { id: string; version: string },
  server: string,
  tools: ReadonlyMap<string, Uint8Array>,
): Promise<string[]> {
  const digests = [...tools.values()].map((digest) => Buffer.from(digest));
  const args = [agent.id, agent.version, server, [...tools.keys()], digests];
  return call(db, z.array(z.string()), 'changed_mcp_tools', args);
}

/** Notes which MCP servers a worker cannot reach. */
export function noteMcpAway(db: Db, worker: string, away: readonly string[]): Promise<void> {
  return call(db, nothing, 'note_mcp_away', [worker, away]);
}

/** The MCP servers that some worker that lives cannot reach. */
export function mcpAway(db: Db): Promise<string[]> {
  return column(
    db,
    z.string(),
    `SELECT DISTINCT unnest(mcp_away) AS server FROM worker_leases WHERE ${WORKER_LIVES} ORDER BY server`,
  );
}
