// A load balancer with health checks, as in production: it sends requests to hosts whose /readyz succeeds.
import { setTimeout as delay } from 'node:timers/promises';
import { patient } from '../../tools/test-kit/patient.ts';
import type { HostProcess } from '../../tools/test-kit/processes.ts';

const CHECK_MS = 50;
/** A request fails when no host has answered it within this time. */
const DEADLINE_MS = patient(15_000);

/** The response of a draining host on a connection that was still open. */
const isRefusal = ({ status, headers }: Response) => status === 503 && headers.get('connection') === 'close';

/**
 * Round robin over the ready hosts. A request that a host refuses, or whose connection closes before the response, is
 * retried on the next host. That is safe because messages and commands carry ids.
 */
export class Balancer {
  private hosts: HostProcess[] = [];
  private next = 0;

  /** Hosts whose /readyz has answered 503. */
  readonly drained = new Set<HostProcess>();

  add(host: HostProcess): void {
    this.hosts.push(host);
    void this.check(host);
  }

  /** @throws the reason of the request's signal, or an error if no host answers */
  async fetch(user: string, path: string, init: RequestInit = {}): Promise<Response> {
    const deadline = performance.now() + DEADLINE_MS;
    while (performance.now() < deadline) {
      const host = this.hosts[this.next++ % this.hosts.length];
      try {
        const response = await host?.as(user).fetch(path, init);
        if (response && !isRefusal(response)) return response;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
      await delay(CHECK_MS, undefined, { signal: init.signal ?? undefined });
    }
    throw new Error(`no host answers ${path}`);
  }

  /** Checks a host's health until it has exited: a host that is not ready may become ready again. */
  private async check(host: HostProcess): Promise<void> {
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
      await delay(CHECK_MS);
    }
    this.hosts = this.hosts.filter((each) => each !== host);
  }
}
