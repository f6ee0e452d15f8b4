import type { RunFailure } from '../../domain/runs.ts';
import type { Limits } from '../definition/define.ts';

/** The limits that can end a turn. */
export type LimitName = 'steps' | 'tokens' | 'wall_clock';

/** The limit that prevents the next step, if any. */
export function limitReached(
  limits: Limits,
  run: { step: number; tokens: number; timeLeftMs: number },
): LimitName | undefined {
  if (run.step >= limits.steps) return 'steps';
  if (run.tokens >= limits.tokens) return 'tokens';
  return run.timeLeftMs <= 0 ? 'wall_clock' : undefined;
}

/** How a turn ends at a limit. */
export function limitFailure(limit: LimitName, limits: Limits): RunFailure {
  const reached = {
    steps: `${limits.steps} steps`,
    tokens: `${limits.tokens} tokens`,
    wall_clock: duration(limits.wall_clock_ms),
  }[limit];
  const message = `The turn reached its limit of ${reached} (${limit}). Send a message to continue.`;
  return { code: 'LimitReached', message };
}

/**
 * How a turn ends whose answer the output limit has cut, so that it says nothing.
 * @param where in what it was cut
 * @param tokens the limit
 */
export function outputLimitFailure(where: string, tokens: number): RunFailure {
  const message =
    `The model’s output reached its limit of ${tokens} tokens ${where}: ask for the work in smaller pieces, or set a larger ` +
    'max_output_tokens for the agent or choose a model with a longer output, and have the message answered again.';
  return { code: 'LimitReached', message };
}

function duration(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  return ms < 120_000 ? `${Math.round(ms / 1_000)} seconds` : `${Math.round(ms / 60_000)} minutes`;
}
