import type { Usage } from '../domain/usage.ts';
import type { ActivityContext } from './activity-context.ts';

const PRICE = 'the price of a step in US dollars, at least 0, or undefined';

/** The price of a model call in US dollars; undefined: unknown. A hook that fails must not repeat the call. */
export function costOf(
  { hooks, log }: Pick<ActivityContext, 'hooks' | 'log'>,
  run: { session: string; run: number },
  { model, usage }: { model: string; usage: Usage },
): number | undefined {
  try {
    const cost: unknown = hooks.cost?.({ model, usage });
    if (cost === undefined || (Number.isFinite(cost) && Number(cost) >= 0)) return cost as number | undefined;
    log.error({ ...run, model }, `the hook cost returned something else: expected ${PRICE}`);
  } catch (err) {
    log.error({ ...run, model, err }, `the hook cost threw an error: expected ${PRICE}`);
  }
  return undefined;
}
