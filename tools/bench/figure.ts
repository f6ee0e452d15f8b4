import type { Column } from './columns.ts';
import type { FloorSession } from './floor.ts';
import type { System } from './servers.ts';

/** Input of a figure. */
export interface Bench {
  system: System;
  /** Opens a bare conversation. */
  floor: () => FloorSession;
  rounds: number;
  /** Duration of the long figures. */
  minutes: number;
  /** Of sessions, initiatives or updates, in figures of ten thousand; even. */
  count: number;
  say(line: string): void;
}

/** Target of a value: an upper bound, a lower bound, a bound over the floor, a multiple of the floor, or a minimum share of it. */
export type Target =
  | { atMost: number }
  | { atLeast: number }
  | { overFloor: number }
  | { timesFloor: number }
  | { shareOfFloor: number };

/** A measured value and its target. */
export interface Result {
  name: string;
  value: number;
  unit: string;
  /** The value without Perdure, from the same run. */
  floor?: number;
  /** Without a target the value is informative only. */
  target?: Target;
  /** Its column in the comparison with other systems. */
  column?: Column;
  detail?: string;
  /** Why the figure could not be measured, which counts as missed. */
  failed?: string;
}

/** A group of results that are measured together. */
export interface Figure {
  name: string;
  /** Measured only with `--only`, because it takes long. */
  onRequest?: { withinMs: number };
  measure(bench: Bench): Promise<Result[]>;
}

/** Whether a result meets its target; undefined: it has none. */
export function passed({ value, floor = 0, target, failed }: Result): boolean | undefined {
  if (failed !== undefined) return false;
  if (target === undefined) return undefined;
  if ('atMost' in target) return value <= target.atMost;
  if ('atLeast' in target) return value >= target.atLeast;
  if ('overFloor' in target) return value - floor <= target.overFloor;
  if ('timesFloor' in target) return value <= target.timesFloor * floor;
  return value >= target.shareOfFloor * floor;
}
