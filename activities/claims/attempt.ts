import type { Claim } from '../../store/runs.ts';
import type { RunStop } from './run-stop.ts';

/** One attempt at a step or a tool call. */
export interface Attempt {
  /** Of an activity: Temporal's number of the attempt, from 1. Of a head start: 0. */
  number: number;
  /** Of a first step: a worker had begun the turn before, so that it waits for no room. */
  hasBegun?: true;
  claim: Claim;
  stop: RunStop;
}
