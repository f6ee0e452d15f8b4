import { alive, readiness } from '../../wire/responses.ts';
import { type Api, json } from '../api.ts';
import type { HostParts } from '../context.ts';

/** For those who run this: alive, ready, and counted. Nobody has to say who they are. */
export function healthRoutes(api: Api, { client, metrics }: HostParts): void {
  const common = { tag: 'Operation' as const, params: {}, open: true };

  api.get(
    '/healthz',
    { ...common, operationId: 'isAlive', summary: 'Alive', answers: { 200: json(alive, 'It is') } },
    (c) => c.json({ ok: true }),
  );

  api.get(
    '/readyz',
    {
      ...common,
      operationId: 'isReady',
      summary: 'Whether what everything rests on answers',
      answers: { 200: json(readiness, 'It does'), 503: json(readiness, 'Some of it does not') },
    },
    async (c) => {
      const { postgres, temporal } = await client.health();
      const ready = postgres && temporal;
      return c.json({ ready, postgres, temporal }, ready ? 200 : 503);
    },
  );

  api.get(
    '/metrics',
    {
      ...common,
      operationId: 'getMetrics',
      summary: 'What the host counts, for Prometheus',
      answers: { 200: { mediaType: 'text/plain', description: 'The text format of Prometheus' } },
    },
    async (c) => c.body(await metrics.text(), 200, { 'content-type': metrics.contentType }),
  );
}
