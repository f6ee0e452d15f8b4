/** How late a worker was in a tenth of a second, in milliseconds. */
export interface Lag {
  /** The mean delay of its event loop. */
  loop: number;
  /** The longest time from a model's chunk to its commit. */
  write: number;
}

/** How many answers a worker streams at once. */
export interface StreamLimit {
  streams: number;
  /** Consecutive samples above the bound. */
  late: number;
  /** Where the limit was lowered last: from here on it rises slowly. */
  lowered: number;
}

/** The bounds of the rule, from the configuration. */
export interface StreamBounds {
  /** Maximum of streams. */
  maxStreams: number;
  /** The worker is late above this delay of its event loop, in milliseconds. */
  maxLagMs: number;
}

/** Streams that may always run, however late the worker is, because something else may be the reason. */
export const ALWAYS = 8;
/** Streams that begin at once in a worker that is in time. */
export const STREAMS_AT_ONCE = 32;
/** Writes may be this many times as late as the event loop: a write waits for a statement, and for the disk. */
const WRITE_LAG = 6;
/** Below this share of the bounds a worker is in time. Between the two nothing changes. */
const IN_TIME = 0.5;
/** Consecutive late samples that lower the limit: a single one may be a garbage collection. */
const LATE_SAMPLES = 3;
const LOWER = 0.9;
const HIGHER = 1.25;
const SLOWLY_HIGHER = 1.05;

/** The limit before the first sample. */
export function firstLimit({ maxStreams }: StreamBounds): StreamLimit {
  return { streams: Math.min(STREAMS_AT_ONCE, maxStreams), late: 0, lowered: maxStreams };
}

/**
 * The limit after a sample of a tenth of a second. Three late samples in a row lower it to nine tenths of what runs, and
 * again only once what runs is within the limit. Each sample in time raises it by a quarter, or by a twentieth from where it was
 * lowered last. It follows what runs: a sudden load begins in steps, so that its effect is measured before all of it has begun.
 * @param running streams that ran in this time
 */
export function nextLimit(limit: StreamLimit, lag: Lag, running: number, bounds: StreamBounds): StreamLimit {
  const share = Math.max(lag.loop / bounds.maxLagMs, lag.write / (bounds.maxLagMs * WRITE_LAG));
  if (share > 1) {
    const late = limit.late + 1;
    // What runs beyond a limit that was lowered before has not ended yet.
    if (late < LATE_SAMPLES || running > limit.streams) return { ...limit, late: Math.min(late, LATE_SAMPLES) };
    const streams = within(Math.floor(running * LOWER), bounds);
    return { streams, late: 0, lowered: streams };
  }
  const rise = share < IN_TIME ? (limit.streams < limit.lowered ? HIGHER : SLOWLY_HIGHER) : 1;
  const used = Math.max(STREAMS_AT_ONCE, Math.ceil(running * HIGHER));
  const streams = within(Math.min(Math.ceil(limit.streams * rise), used), bounds);
  return { ...limit, streams, late: 0 };
}

function within(streams: number, { maxStreams }: StreamBounds): number {
  return Math.min(maxStreams, Math.max(ALWAYS, streams));
}
