import { createServer, type Server } from 'node:http';
import type { Registry } from 'prom-client';

/**
 * Serves a registry to Prometheus at /metrics, with what `more` has to add, and nothing else.
 * @param more metrics of other names in Prometheus' text format; left out when they cannot be had
 */
export function serveMetrics(
  registry: Registry,
  { host, port, more }: { host: string; port: number; more?: (() => Promise<string>) | undefined },
): Server {
  const server = createServer((request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    void Promise.all([registry.metrics(), more?.().catch(() => '')]).then(
      ([own, others = '']) => {
        const text = others === '' ? own : `${own}\n${others.trimEnd()}\n`;
        response.writeHead(200, { 'content-type': registry.contentType }).end(text);
      },
      () => response.writeHead(500).end(),
    );
  });
  return server.listen(port, host);
}
