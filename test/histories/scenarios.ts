import { goingBack } from './going-back.ts';
import { initiatives } from './initiatives.ts';
import { lifecycle } from './lifecycle.ts';
import type { Scenario } from './scenario.ts';
import { subagents } from './subagents.ts';
import { turns } from './turns.ts';
import { waits } from './waiting.ts';

/** Every scenario whose histories are recorded, and replayed against the current code. */
export const scenarios: readonly Scenario[] = [
  ...turns,
  ...lifecycle,
  ...goingBack,
  ...waits,
  ...subagents,
  ...initiatives,
];
