import { Counter, type Registry } from 'prom-client';
import type { Bus } from './bus.ts';

/** Counts the batches that a process's bus sends, and how often it starts to listen, including the first time. */
export function countBus(bus: Bus, registry: Registry): void {
  const counter = (name: string, help: string, count: 'batches' | 'listenings') =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(bus.counts?.[count] ?? 0);
      },
    });
  counter('perdure_bus_batches_total', 'Batches of pointers that were sent to other processes.', 'batches');
  const listening = 'Times that listening has begun; all but the first are reconnections.';
  counter('perdure_bus_listening_total', listening, 'listenings');
}
