import { lifecycle } from './lifecycle.ts';
import type { Scenario } from './scenario.ts';
import { turns } from './turns.ts';

/** Every scenario whose histories are recorded, and replayed against the current code. */
export const scenarios: readonly Scenario[] = [...turns, ...lifecycle];
