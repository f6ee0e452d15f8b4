import { patient } from '../../test-kit/patient.ts';
import { by, type Evidence, type EventRow } from '../evidence.ts';
import type { Injected } from '../faults.ts';
import type { Ledger } from '../ledger.ts';

/** Time to find the lapsed lease or, for the server, to notice missing heartbeats, and for the next attempt to start. */
const NOTICED_WITHIN_MS = patient(8_000);

/**
 * A step calls the model once. A second call is allowed only where the provider failed, or where something died or a user asked
 * for another answer between the two calls or shortly before; slowness is no excuse.
 */
export function checkModelCalls(ledger: Ledger, evidence: Evidence, injected: readonly Injected[]): void {
  const { calls } = evidence;
  const again = answersAskedFor(evidence);
  const deaths = injected.filter(({ isDeath }) => isDeath);
  for (const [step, made] of by(calls, (call) => `message ${call.messageId}, step ${call.step}`)) {
    for (const [n, call] of made.entries()) {
      const before = made[n - 1];
      if (before === undefined) continue;
      const died = deaths.filter(
        ({ from, to }) => from <= call.startedAt && to + NOTICED_WITHIN_MS >= before.startedAt,
      );
      const asked = (again.get(call.messageId) ?? []).filter(
        (at) => at <= call.startedAt && at + NOTICED_WITHIN_MS >= before.startedAt,
      );
      const excused = before.fault !== undefined || died.length > 0 || asked.length > 0;
      ledger.check('no second model call unless something died', step, excused, () => ({
        calls: made.map(({ number, startedAt, endedAt, whole }) => ({ number, startedAt, endedAt, whole })),
        faults: injected.filter(({ from, to }) => from <= call.startedAt && to >= before.startedAt),
      }));
    }
  }
}

/** When users have asked for another answer to each message, in times of `performance.now()`. */
function answersAskedFor({ events, runs }: Evidence): Map<string, number[]> {
  const tags = new Map(runs.map((run) => [`${run.session_id}/${run.message_id}`, run.tag]));
  const asked = events.filter(({ kind }) => kind === 'regenerate');
  const tagOf = ({ session_id, data }: EventRow) => tags.get(`${session_id}/${String(data['message_id'])}`) ?? '';
  return new Map(
    [...by(asked, tagOf)].map(([tag, all]) => [tag, all.map(({ at }) => at.getTime() - performance.timeOrigin)]),
  );
}
