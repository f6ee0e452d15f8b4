import pTimeout from 'p-timeout';
import type { UnitOutcome } from '../../domain/activities.ts';
import type { LedSession, StepOrToolArgs, StepOrToolOutcome } from './led-session.ts';

/** A unit that takes longer gets an activity of its own. */
const QUICK_MS = 25;
/** Units that an activity reports besides its own. */
const MAX_ALSO = 16;

/** A unit's outcome, with those of the units after it that settle quickly: the workflow gets them together. */
export async function reportTogether<Kind extends StepOrToolOutcome>(
  session: LedSession,
  args: StepOrToolArgs,
  outcome: Kind,
): Promise<Kind> {
  if (outcome.kind !== 'settled') return outcome;
  const also: UnitOutcome[] = [];
  while (also.length < MAX_ALSO) {
    const next = [...session.begun].find(([, { run }]) => run === args.run_seq);
    if (next === undefined) break;
    const [key, headStart] = next;
    const settled = await pTimeout(headStart.outcome, { milliseconds: QUICK_MS, message: false }).catch(
      () => undefined,
    );
    if (settled?.kind !== 'settled' || !session.begun.delete(key)) break;
    headStart.attempt.stop.isAttached = true;
    also.push(settled);
  }
  return also.length === 0 ? outcome : { ...outcome, also };
}
