// Numbers and times as the console shows them.

const NUMBER = new Intl.NumberFormat('en');
const TIME = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** A duration: `820 ms`, `4.2 s`, `3 min 5 s`. */
export function durationWords(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function timeWords(iso: string): string {
  return TIME.format(new Date(iso));
}

export function countWords(count: number): string {
  return NUMBER.format(count);
}

const AMOUNT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A count of any size, shortly: `950`, `1.2K`, `3.4M`. */
export function amountWords(count: number): string {
  return AMOUNT.format(count);
}

/** A price in dollars, small ones with the digits that tell them apart. */
export function costWords(usd: number | null): string {
  if (usd === null) return '–';
  return `$${usd === 0 || usd >= 1 ? usd.toFixed(2) : Number(usd.toPrecision(3)).toString()}`;
}

/** Part of a duration, for a bar: both between 0 and 1. */
export interface Stretch {
  from: number;
  length: number;
}

/**
 * Where work of `ms` milliseconds that ended at `endedAt` lies within `from` to `to`; the last two in epoch milliseconds. The
 * clocks of worker and Postgres may differ, so it is bounded.
 */
export function stretchOf(
  { ms, ended_at: endedAt }: { ms: number; ended_at: string },
  { from, to }: { from: number; to: number },
): Stretch {
  const whole = Math.max(to - from, 1);
  const bounded = (part: number) => Math.min(Math.max(part, 0), 1);
  const end = bounded((Date.parse(endedAt) - from) / whole);
  const start = bounded((Date.parse(endedAt) - ms - from) / whole);
  return { from: start, length: end - start };
}
