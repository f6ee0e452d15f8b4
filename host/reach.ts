import { setTimeout as sleep } from 'node:timers/promises';
import type { PerdureClient } from '../client/client.ts';
import type { Logger } from '../config/log.ts';

/** Interval between two checks; shorter during an outage. */
const CHECK_MS = 5_000;
const RETRY_MS = 1_000;

type Server = 'postgres' | 'temporal';

/**
 * Checks Postgres and Temporal until the signal fires, and logs when one becomes unreachable or reachable again. The host
 * keeps serving: requests that do not need the missing server work, and /readyz returns 503.
 */
export async function watchReach(
  client: PerdureClient,
  addresses: Record<Server, string>,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const reachable = { postgres: true, temporal: true };
  let different: string | undefined;
  while (!signal.aborted) {
    const health = await client.health();
    for (const server of ['postgres', 'temporal'] as const) {
      if (health[server] === reachable[server]) continue;
      reachable[server] = health[server];
      const address = addresses[server];
      if (health[server]) log.info({ address }, `${server} can be reached again at ${address}`);
      else log.warn({ address }, `${server} cannot be reached at ${address}`);
    }
    const differ = health.agents && JSON.stringify(health.agents);
    if (differ !== undefined && differ !== different) {
      log.warn(health.agents, 'host and workers have different agents: expected the same module of PERDURE_AGENTS');
    }
    different = differ;
    const isDown = !reachable.postgres || !reachable.temporal;
    await sleep(isDown ? RETRY_MS : CHECK_MS, undefined, { signal, ref: false }).catch(() => {});
  }
}
