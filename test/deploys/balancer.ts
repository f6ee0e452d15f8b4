// What stands before hosts in production: it sends requests to those that say that they are ready.
import { setTimeout as delay } from 'node:timers/promises';
import type { HostProcess } from '../../tools/test-kit/processes.ts';

const LOOK_MS = 50;
/** A busy machine may take its time. */
const PATIENCE_MS = 15_000;

/** A host that has ended, over a connection that it had still open. */
const isRefusal = ({ status, headers }: Response) => status === 503 && headers.get('connection') === 'close';

/**
 * Takes turns among the hosts that are ready. A request that a host refuses, or drops before it has answered, goes to
 * the next one, as balancers do with those that may be repeated: ours all may, for messages and commands carry ids.
 */
export class Balancer {
  private hosts: HostProcess[] = [];
  private turn = 0;

  /** Hosts that have said that they are not ready. */
  readonly drained = new Set<HostProcess>();

  add(host: HostProcess): void {
    this.hosts.push(host);
    void this.look(host);
  }

  async fetch(user: string, path: string, init: RequestInit = {}): Promise<Response> {
    const deadline = performance.now() + PATIENCE_MS;
    while (performance.now() < deadline) {
      const host = this.hosts[this.turn++ % this.hosts.length];
      try {
        const response = await host?.as(user).fetch(path, init);
        if (response && !isRefusal(response)) return response;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
      await delay(LOOK_MS);
    }
    throw new Error(`no host answers ${path}`);
  }

  /** Asks a host until it has ended: one that is not ready may be so again. */
  private async look(host: HostProcess): Promise<void> {
    const end = new AbortController();
    void host.exited.then(() => end.abort());
    while (!end.signal.aborted) {
      const isReady = await fetch(`${host.url}/readyz`).then(
        ({ ok }) => ok,
        () => undefined,
      );
      if (isReady === false) this.drained.add(host);
      const others = this.hosts.filter((each) => each !== host);
      this.hosts = isReady === true ? [...others, host] : others;
      await delay(LOOK_MS);
    }
    this.hosts = this.hosts.filter((each) => each !== host);
  }
}
