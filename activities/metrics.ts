import { Counter, type Registry } from 'prom-client';
import type { Usage } from '../domain/usage.ts';

/** What activities count. */
export interface WorkerMetrics {
  refused(command: string, code: string): void;
  stepSettled(model: string, usage: Usage): void;
}

/** Counters on a registry of Prometheus. */
export function workerMetrics(registry: Registry): WorkerMetrics {
  const refused = new Counter({
    name: 'perdure_refused_total',
    help: 'Commands that were refused, by command and code.',
    labelNames: ['command', 'code'],
    registers: [registry],
  });
  const steps = new Counter({
    name: 'perdure_steps_total',
    help: 'Settled steps, by model.',
    labelNames: ['model'],
    registers: [registry],
  });
  const tokens = new Counter({
    name: 'perdure_tokens_total',
    help: 'Tokens of settled steps, by model and kind.',
    labelNames: ['model', 'kind'],
    registers: [registry],
  });
  return {
    refused: (command, code) => refused.inc({ command, code }),
    stepSettled: (model, usage) => {
      steps.inc({ model });
      for (const [kind, count] of Object.entries(usage)) tokens.inc({ model, kind }, count);
    },
  };
}
