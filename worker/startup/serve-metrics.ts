import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { Registry } from 'prom-client';

/** The further metrics; none if they fail. */
async function others(more: (() => Promise<string>) | undefined): Promise<string> {
  try {
    return (await more?.()) ?? '';
  } catch {
    return '';
  }
}

/**
 * Serves a registry to Prometheus at /metrics, and nothing else.
 * @param more further metrics in Prometheus' text format, under other names; left out of the response when it rejects
 * @throws {Error} the address cannot be used, such as EADDRINUSE
 */
export async function serveMetrics(
  registry: Registry,
  { host, port, more }: { host: string; port: number; more?: (() => Promise<string>) | undefined },
): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    void Promise.all([registry.metrics(), others(more)]).then(
      ([own, further]) => {
        const text = further === '' ? own : `${own}\n${further.trimEnd()}\n`;
        response.writeHead(200, { 'content-type': registry.contentType }).end(text);
      },
      () => response.writeHead(500).end(),
    );
  });
  server.listen(port, host);
  await once(server, 'listening');
  return server;
}
