// What stands before hosts in production: it sends requests to those that say that they are ready.
import { setTimeout as delay } from 'node:timers/promises';
import type { HostProcess } from '../support/processes.ts';

const LOOK_MS = 50;

/**
 * Takes turns among the hosts that are ready. A request that a host refuses, or drops before it has answered, goes to
 * the next one, as balancers do with those that may be repeated: ours all may, for messages and commands carry ids.
 */
export class Balancer {
  private hosts: HostProcess[] = [];
  private turn = 0;

  /** Hosts that were taken out because they said that they are not ready. */
  readonly drained = new Set<HostProcess>();

  add(host: HostProcess): void {
    this.hosts.push(host);
    void this.look(host);
  }

  async fetch(user: string, path: string, init: RequestInit = {}): Promise<Response> {
    for (let tries = 0; tries < 40; tries += 1) {
      const host = this.hosts[this.turn++ % this.hosts.length];
      try {
        if (host) return await host.as(user).fetch(path, init);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
      await delay(LOOK_MS);
    }
    throw new Error(`no host answers ${path}`);
  }

  private async look(host: HostProcess): Promise<void> {
    for (;;) {
      const isReady = await fetch(`${host.url}/readyz`).then(
        ({ ok }) => ok,
        () => undefined,
      );
      if (isReady === false) this.drained.add(host);
      if (isReady !== true) break;
      await delay(LOOK_MS);
    }
    this.hosts = this.hosts.filter((each) => each !== host);
  }
}
