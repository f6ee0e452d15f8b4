import { lives } from './lives.ts';
import type { Scenario } from './scenario.ts';
import { turns } from './turns.ts';

/** Every scenario whose histories are kept, and replayed against the current code. */
export const scenarios: readonly Scenario[] = [...turns, ...lives];
