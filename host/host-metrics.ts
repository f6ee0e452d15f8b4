import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** The host's metrics; `text` renders them for Prometheus. */
export interface HostMetrics {
  refused(command: string, code: string): void;
  request(method: string, route: string, status: number, seconds: number): void;
  /** Counts an open stream; call the returned function when it ends. */
  streamOpened(route: string): () => void;
  text(): Promise<string>;
  readonly contentType: string;
}

export function hostMetrics(registry: Registry = new Registry()): HostMetrics {
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const refused = new Counter({
    name: 'perdure_refused_total',
    help: 'Commands that were refused, by command and code.',
    labelNames: ['command', 'code'],
    registers,
  });
  const requests = new Histogram({
    name: 'perdure_http_request_seconds',
    help: 'Time until the response began, by method, route and status.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers,
  });
  const streams = new Gauge({
    name: 'perdure_http_streams',
    help: 'Open streams, by route.',
    labelNames: ['route'],
    registers,
  });
  return {
    refused: (command, code) => refused.inc({ command, code }),
    request: (method, route, status, seconds) => requests.observe({ method, route, status }, seconds),
    streamOpened: (route) => {
      streams.inc({ route });
      return () => streams.dec({ route });
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
