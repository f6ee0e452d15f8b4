import { by, type Evidence } from '../evidence.ts';
import type { Injected } from '../faults.ts';
import type { Ledger } from '../ledger.ts';

/** A death is noticed by a missing heartbeat, and the step is scheduled again a little later. */
const NOTICED_WITHIN_MS = 8_000;

/**
 * A step calls the model once. It may do so again where the provider broke off, or where something died between the two
 * calls or shortly before: what is only slow is no reason.
 */
export function checkModelCalls(ledger: Ledger, { calls }: Evidence, injected: readonly Injected[]): void {
  const deaths = injected.filter(({ isDeath }) => isDeath);
  for (const [step, made] of by(calls, (call) => `message ${call.messageId}, step ${call.step}`)) {
    for (const [n, call] of made.entries()) {
      const before = made[n - 1];
      if (before === undefined) continue;
      const died = deaths.filter(
        ({ from, to }) => from <= call.startedAt && to + NOTICED_WITHIN_MS >= before.startedAt,
      );
      const excused = before.fault !== undefined || died.length > 0;
      ledger.check('no second model call unless something died', step, excused, () => ({ before, call, injected }));
    }
  }
}
