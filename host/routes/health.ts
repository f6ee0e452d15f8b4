import { alive, readiness } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostParts } from '../context.ts';

/** Liveness, readiness and metrics, without authentication. */
export function healthRoutes(api: Api, { client, metrics }: HostParts): void {
  const common = { tag: 'Operation' as const, params: {}, open: true };

  api.get(
    '/healthz',
    { ...common, operationId: 'isAlive', summary: 'Liveness', responses: { 200: jsonResponse(alive, 'Alive') } },
    (c) => c.json({ ok: true }),
  );

  api.get(
    '/readyz',
    {
      ...common,
      operationId: 'isReady',
      summary: 'Readiness: whether Postgres takes writes, and Temporal can be reached',
      description:
        '`read_only` is there if Postgres refuses writes, as a standby does: `postgres` is then false. `agents` is there if ' +
        'workers have other agents than this host. That alone does not make the host unready, because ' +
        'its other agents work. `mcp` names the MCP servers that some worker cannot reach: their tools are missing.',
      responses: {
        200: jsonResponse(readiness, 'Both serve'),
        503: jsonResponse(readiness, 'At least one cannot be reached, or Postgres is read-only'),
      },
    },
    async (c) => {
      const health = await client.health();
      const ready = health.postgres && health.temporal;
      return c.json({ ready, ...health }, ready ? 200 : 503);
    },
  );

  api.get(
    '/metrics',
    {
      ...common,
      operationId: 'getMetrics',
      summary: 'Metrics for Prometheus',
      responses: { 200: { mediaType: 'text/plain', description: 'The Prometheus text format' } },
    },
    async (c) => c.body(await metrics.text(), 200, { 'content-type': metrics.contentType }),
  );
}
