import { setTimeout as sleep } from 'node:timers/promises';
import type { PerdureClient } from '../client/client.ts';
import type { Logger } from '../config/log.ts';

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
const STEADY_MS = 5_000;

type Server = 'postgres' | 'temporal';

/**
 * Checks Postgres and Temporal until the signal fires, and logs outages and recoveries. The host keeps serving:
 * requests that do not need the missing server work, and /readyz returns 503.
 */
export async function watchReach(
  client: PerdureClient,
  addresses: Record<Server, string>,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const away = new Set<Server>();
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    const health = await client.health();
    for (const server of ['postgres', 'temporal'] as const) {
      const address = addresses[server];
      if (!health[server]) log.warn({ address, retry_in_ms: wait }, `${server} cannot be reached at ${address}`);
      else if (away.has(server)) log.info({ address }, `${server} can be reached again at ${address}`);
      if (health[server]) away.delete(server);
      else away.add(server);
    }
    await sleep(away.size > 0 ? wait : STEADY_MS, undefined, { signal, ref: false }).catch(() => {});
    wait = away.size > 0 ? Math.min(wait * 2, LONGEST_WAIT_MS) : FIRST_WAIT_MS;
  }
}
