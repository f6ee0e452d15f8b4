import { Counter, Gauge, type Registry } from 'prom-client';
import type { Admission } from '../activities/admission/admission.ts';
import type { Db } from '../store/db.ts';
import { type OpenWork, readOpenWork } from '../store/open-work.ts';

/** Counts sessions that the sweeper woke. */
export function countWakes(registry: Registry): () => void {
  const wakes = new Counter({
    name: 'perdure_sweeper_wakes_total',
    help: 'Sessions that the sweeper woke because their wake-up was lost.',
    registers: [registry],
  });
  return () => wakes.inc();
}

/** Reports how many answers this worker may stream at once, and the turns that wait because as many do. */
export function watchAdmission(admission: Admission, registry: Registry): void {
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      ...{ name, help, registers: [registry] },
      collect() {
        this.set(value());
      },
    });
  gauge('perdure_stream_limit', 'Answers that this worker may stream at once now.', () => admission.streams);
  gauge('perdure_turns_waiting', 'Turns that wait because this worker is busy.', () => admission.waiting);
}

/** Scrapes within this time share one query. */
const FRESH_MS = 5_000;

/**
 * Gauges of the open work of all sessions, read from Postgres at each scrape. Every worker reports the same values: take
 * the maximum. They are missing from the scrape if Postgres does not answer.
 */
export function watchWork(db: Db, registry: Registry): void {
  let reading: Promise<OpenWork> | undefined;
  let readAt = -Infinity;
  const read = () => {
    if (performance.now() - readAt > FRESH_MS) {
      readAt = performance.now();
      reading = readOpenWork(db);
      reading.catch(() => (readAt = -Infinity));
    }
    return reading;
  };
  const runs = new Gauge({
    name: 'perdure_runs',
    help: 'Open runs of all sessions, by state; the same in every worker.',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      this.reset();
      const work = await read()?.catch(() => undefined);
      for (const state of ['queued', 'running', 'waiting'] as const) if (work) this.set({ state }, work[state]);
    },
  });
  const one = (name: string, help: string, value: (work: OpenWork) => number) =>
    new Gauge({
      name,
      help: `${help}; the same in every worker.`,
      registers: [registry],
      async collect() {
        const work = await read()?.catch(() => undefined);
        if (work) this.set(value(work));
        else this.remove();
      },
    });
  const longest = 'How long the run that waits longest, with nothing ahead of it, has waited';
  one('perdure_queue_oldest_seconds', longest, (work) => work.oldest_s);
  one(
    'perdure_stuck_sessions',
    'Sessions and initiatives whose workflow the deployed code cannot carry on',
    (work) => work.stuck,
  );
  runs.reset();
}
