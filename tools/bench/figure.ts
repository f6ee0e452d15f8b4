import type { FloorSession } from './floor.ts';
import type { Column } from './columns.ts';
import type { System } from './servers.ts';

/** What a figure is measured with. */
export interface Bench {
  system: System;
  /** Opens a bare conversation. */
  floor: () => FloorSession;
  rounds: number;
  /** For figures that last as long as they are told to. */
  minutes: number;
  say(line: string): void;
}

/** What a value should be: at most so much, at most so much over the floor, or at least this share of the floor. */
export type Target = { atMost: number } | { overFloor: number } | { shareOfFloor: number };

/** One measured value, and what it should be. */
export interface Result {
  name: string;
  value: number;
  unit: string;
  /** The same without Perdure, in the same run. */
  floor?: number;
  /** Without one the value is for information. */
  target?: Target;
  /** The column of the comparison with other systems that it fills. */
  column?: Column;
  detail?: string;
  /** Why there is no value: the figure could not be measured, which counts as missed. */
  failed?: string;
}

/** A group of results that are measured together. */
export interface Figure {
  name: string;
  /** Measured only where `--only` names it: it takes long. */
  onRequest?: { withinMs: number };
  measure(bench: Bench): Promise<Result[]>;
}

/** Whether a result is what it should be; undefined: nobody said what that is. */
export function passed({ value, floor = 0, target, failed }: Result): boolean | undefined {
  if (failed !== undefined) return false;
  if (target === undefined) return undefined;
  if ('atMost' in target) return value <= target.atMost;
  if ('overFloor' in target) return value - floor <= target.overFloor;
  return value >= target.shareOfFloor * floor;
}
