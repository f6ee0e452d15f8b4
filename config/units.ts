import { z } from 'zod';

const DURATIONS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const SIZES: Record<string, number> = { b: 1, kb: 1024, kib: 1024, mb: 1024 ** 2, mib: 1024 ** 2, gib: 1024 ** 3 };
const MIB = 1024 ** 2;
const LONGEST_DURATION = 3650 * 86_400_000;

/** Reads `<number><unit>` by a table of units; undefined when it is not of that form. */
function parseUnit(text: string, units: Record<string, number>, bareUnit: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim());
  const factor = match && units[(match[2] || bareUnit).toLowerCase()];
  return match && factor ? Math.round(Number(match[1]) * factor) : undefined;
}

/** Milliseconds of a duration such as `250ms`, `2s`, `1.5h`, `7d`; a bare number is milliseconds. */
function parseDuration(text: string): number | undefined {
  const ms = parseUnit(text, DURATIONS, 'ms');
  return ms !== undefined && ms <= LONGEST_DURATION ? ms : undefined;
}

/** Bytes of a size such as `262144`, `256KiB`, `1 MiB`; a bare number is bytes. */
function parseSize(text: string): number | undefined {
  const bytes = parseUnit(text, SIZES, 'b');
  return bytes !== undefined && Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Schema of a value that `parse` accepts and that is within bounds. */
function unit(parse: (text: string) => number | undefined, [least, most]: [number, number], expected: string) {
  return z.string().transform((text, ctx) => {
    const value = parse(text);
    if (value !== undefined && value >= least && value <= most) return value;
    ctx.addIssue({ code: 'custom', message: expected });
    return z.NEVER;
  });
}

/** A duration in milliseconds, by default at least 1 ms. */
export const duration = (example: string, least = 1) =>
  unit(parseDuration, [least, LONGEST_DURATION], `a duration such as ${example}`);

/** A duration in milliseconds within bounds, which are durations too. */
export function durationWithin(least: string, most: string) {
  const bounds = [least, most].map((bound) => parseDuration(bound) ?? Number.NaN) as [number, number];
  return unit(parseDuration, bounds, `a duration from ${least} to ${most}`);
}

/** A size in bytes, at least one. */
export const size = (example: string) => unit(parseSize, [1, Infinity], `a size such as ${example}`);

/** A size in bytes, within bounds that are given in MiB. */
export function sizeWithin(least: number, most: number) {
  return unit(parseSize, [least * MIB, most * MIB], `a size from ${least}MiB to ${most}MiB`);
}

/** A whole number within bounds. */
export function integer(least: number, most: number) {
  const read = (text: string) => (/^\d+$/.test(text.trim()) ? Number(text) : undefined);
  return unit(read, [least, most], `a whole number from ${least} to ${most}`);
}
