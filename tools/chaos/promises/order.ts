import { isDeepStrictEqual } from 'node:util';
import { by, type Evidence, type RunRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import type { ModelCall } from '../model.ts';
import { Sight } from '../sight.ts';

/** A session has one run at a time, in queue order, and each sees exactly the messages before it. No request is for anything else. */
export function checkOrder(ledger: Ledger, evidence: Evidence, settled: ReadonlyMap<number, RunRow>): void {
  const sessions = by(evidence.runs, (run) => run.session_id);
  const users = by(
    evidence.messages.filter(({ role }) => role === 'user'),
    (row) => row.session_id,
  );
  const turns = new Set(evidence.runs.filter(({ kind }) => kind === 'turn').map(({ tag }) => tag));
  for (const { number, messageId } of evidence.calls) {
    ledger.check('every request is for a turn', `request ${number}`, turns.has(messageId), () => messageId);
  }
  for (const [session, runs] of sessions) {
    const tags = new Set(runs.filter(({ kind }) => kind === 'turn').map(({ tag }) => tag));
    const calls = evidence.calls.filter((call) => tags.has(call.messageId));
    const lasting = calls.filter((call) => settled.has(call.number));
    for (const [n, call] of lasting.entries()) {
      const before = lasting[n - 1];
      if (before === undefined) continue;
      const where = `session ${session}, requests ${before.number} and ${call.number}`;
      const inOrder = placeOf(before, settled) < placeOf(call, settled);
      ledger.check('turns run in queue order', where, inOrder, () => [before.messageId, call.messageId]);
      const apart = (before.endedAt ?? Infinity) <= call.startedAt;
      ledger.check('one run at a time', where, apart, () => `${before.endedAt} and ${call.startedAt}`);
    }
    const seen = new Sight(evidence, session);
    for (const call of calls) {
      const own = users.get(session)?.find(({ tag }) => tag === call.messageId);
      const expected = own && seen.by(own, call.summaries);
      const same = isDeepStrictEqual(call.saw, expected);
      ledger.check('a turn sees exactly the messages before it', `request ${call.number}`, same, () => ({
        saw: call.saw,
        expected,
      }));
      ledger.check('a turn sees one summary at most', `request ${call.number}`, call.summaries.length <= 1, () => call);
    }
  }
}

function placeOf({ number, step }: ModelCall, settled: ReadonlyMap<number, RunRow>): number {
  return settled.get(number)!.seq * 1_000 + step;
}
