import { setTimeout as sleep } from 'node:timers/promises';
import type { PerdureClient } from '../../client/client.ts';
import { ConfigError } from '../../config/error.ts';

const RETRY_MS = 2_000;

/**
 * Settles once both servers have said that the client's task queue is its installation's or nobody's, or the signal fires.
 * @throws {ConfigError} it is another installation's: this host would wake its sessions there, where no worker knows them
 */
export async function requireOwnTaskQueue(client: PerdureClient, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      return await client.requireOwnTaskQueue();
    } catch (error) {
      if (error instanceof ConfigError) throw error;
    }
    await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
  }
}
