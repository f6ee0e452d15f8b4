import { z } from 'zod';

// What the console's numbers are: of a time range, in parts of equal length.

const count = z.int().min(0);
const time = z.iso.datetime();

/** How long the time range of the console's numbers is, and how long one of its parts, in milliseconds. */
export const NUMBER_RANGES = {
  hour: { ms: 3_600_000, step: 60_000 },
  day: { ms: 86_400_000, step: 1_800_000 },
  week: { ms: 604_800_000, step: 14_400_000 },
} as const;
const RANGES = ['hour', 'day', 'week'] as const satisfies (keyof typeof NUMBER_RANGES)[];
/** A time range of the console's numbers. */
export const numberRange = z.enum(RANGES, 'hour, day or week');

const counts = z.array(count);
const maybeMs = z.array(count.nullable()).meta({ description: 'Milliseconds; null: there was none in this time' });
const quantiles = z.object({ p50: maybeMs, p95: maybeMs });
const byCode = z.array(z.object({ code: z.string(), counts }));
const tooLong = 'null: reading it took too long';

/** What happened in a time range, in all sessions of a user or of all users. Every list has one entry for each part of it. */
export const consoleNumbers = z
  .object({
    range: numberRange,
    from: time,
    step_ms: count,
    user: z.string().nullable().meta({ description: 'Whose sessions; null: those of all users' }),
    turns: z
      .object({
        ...{ finished: counts, aborted: counts, error: counts, cancelled: counts, open: counts },
        waited: quantiles.meta({ description: 'From the acceptance of a message to the beginning of its turn' }),
        took: quantiles.meta({ description: 'From there to its end, without waiting for users' }),
      })
      .nullable()
      .meta({ description: `Turns, by the time when they were accepted. ${tooLong}` }),
    work: z
      .object({ steps: counts, calls: counts, workers: counts, first: quantiles })
      .nullable()
      .meta({ description: `Steps and tool calls, by their end; first: to a model's first chunk. ${tooLong}` }),
    tokens: z
      .object({
        ...{ input: counts, output: counts, reasoning: counts, cache_read: counts, cache_write: counts },
        cost_usd: z.array(z.number().nullable()),
      })
      .nullable()
      .meta({ description: `Of the steps. ${tooLong}` }),
    errors: z
      .object({ turns: byCode, provider: byCode })
      .nullable()
      .meta({ description: `Turns that failed, and failed calls of models, each attempt. ${tooLong}` }),
    now: z
      .object({
        ...{ queued: count, running: count, waiting: count, stuck: count },
        oldest_ms: count.meta({ description: 'How long the oldest run that could start has waited' }),
        overdue_ms: count.meta({ description: 'By how much the sweeper is late with its most overdue check of a run' }),
        workers: count.meta({ description: 'With a lease' }),
        lost_workers: count.meta({ description: 'Whose lease has lapsed' }),
        lease_age_ms: count.meta({ description: 'Since the lease that was renewed longest ago was renewed' }),
        streams: count.meta({ description: 'Open streams at this host' }),
      })
      .meta({ description: 'Of now. The workers and the sweeper are those of all users' }),
  })
  .meta({ id: 'ConsoleNumbers', description: 'What happened in a time range, and what is open.' });

/** What happened in a time range, and what is open. */
export type ConsoleNumbers = z.output<typeof consoleNumbers>;
