import { createServer, type Server } from 'node:http';
import type { Registry } from 'prom-client';

/** Serves a registry to Prometheus at /metrics, and nothing else. */
export function serveMetrics(registry: Registry, host: string, port: number): Server {
  const server = createServer((request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    void registry.metrics().then(
      (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  return server.listen(port, host);
}
