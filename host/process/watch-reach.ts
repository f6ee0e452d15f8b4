import { setTimeout as sleep } from 'node:timers/promises';
import type { PerdureClient } from '../../client/client.ts';
import type { Health } from '../../client/health.ts';
import type { Logger } from '../../config/log.ts';

/** Interval between two checks; shorter during an outage. */
const CHECK_MS = 5_000;
const RETRY_MS = 1_000;

type Server = 'postgres' | 'temporal';

/**
 * Checks Postgres and Temporal until the signal fires, and logs when one becomes unreachable or reachable again, or Postgres
 * read-only. The host keeps serving: requests that do not need the missing server work, and /readyz returns 503.
 */
export async function watchReach(
  client: PerdureClient,
  addresses: Record<Server, string>,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const wrong: Record<Server, string | undefined> = { postgres: undefined, temporal: undefined };
  let different: string | undefined;
  while (!signal.aborted) {
    const health = await client.health();
    for (const server of ['postgres', 'temporal'] as const) {
      const now = wrongWith(server, health);
      if (now === wrong[server]) continue;
      wrong[server] = now;
      const address = addresses[server];
      if (now === undefined) log.info({ address }, `${server} can be reached again at ${address}`);
      else log.warn({ address }, `${server} ${now} at ${address}`);
    }
    const differ = health.agents && JSON.stringify(health.agents);
    if (differ !== undefined && differ !== different) {
      log.warn(health.agents, 'host and workers have different agents: expected the same module of PERDURE_AGENTS');
    }
    different = differ;
    const isDown = wrong.postgres !== undefined || wrong.temporal !== undefined;
    await sleep(isDown ? RETRY_MS : CHECK_MS, undefined, { signal, ref: false }).catch(() => {});
  }
}

function wrongWith(server: Server, health: Health): string | undefined {
  if (health[server]) return undefined;
  return server === 'postgres' && health.read_only ? 'is read-only' : 'cannot be reached';
}
