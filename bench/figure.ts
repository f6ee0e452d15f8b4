import type { FloorSession } from './floor.ts';
import type { System } from './servers.ts';

/** What a figure is measured with. */
export interface Bench {
  system: System;
  /** Opens a bare conversation. */
  floor: () => FloorSession;
  rounds: number;
  say(line: string): void;
}

/** One measured value, and what it should be. */
export interface Result {
  name: string;
  value: number;
  unit: string;
  /** The same without Perdure, in the same run. */
  floor?: number;
  /** The most that it may be; of an `overhead` the most over the floor. Without one it is for information. */
  target?: number;
  /** How the target is meant: of the value itself, or of its distance from the floor. */
  against?: 'value' | 'floor';
  detail?: string;
}

/** A group of results that are measured together. */
export interface Figure {
  name: string;
  measure(bench: Bench): Promise<Result[]>;
}

/** Whether a result is what it should be; undefined: nobody said what that is. */
export function passed({ value, floor = 0, target, against = 'value' }: Result): boolean | undefined {
  if (target === undefined) return undefined;
  return (against === 'floor' ? value - floor : value) <= target;
}
