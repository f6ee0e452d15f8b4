import type { Limits } from '../agent/define.ts';

/** The limits of a turn that can end it. */
export type LimitName = 'steps' | 'tokens' | 'wall_clock';

/** The limit that keeps a run from its next step, if any. */
export function limitReached(
  limits: Limits,
  run: { step: number; tokens: number; timeLeftMs: number },
): LimitName | undefined {
  if (run.step >= limits.steps) return 'steps';
  if (run.tokens >= limits.tokens) return 'tokens';
  return run.timeLeftMs <= 0 ? 'wall_clock' : undefined;
}

/** What the user reads when a limit has ended the turn. */
export function limitMessage(limit: LimitName, limits: Limits): string {
  const reached = {
    steps: `${limits.steps} steps`,
    tokens: `${limits.tokens} tokens`,
    wall_clock: `${Math.round(limits.wall_clock_ms / 60_000)} minutes of time`,
  }[limit];
  return `The turn reached its limit of ${reached} (${limit}). Send a message to go on from here.`;
}
