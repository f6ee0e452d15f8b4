import { isDeepStrictEqual } from 'node:util';
import type { Answered } from '../api.ts';
import type { Evidence } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

const TRANSITIONS: ReadonlySet<string> = new Set(['publish', 'revert']);
const UPDATE_NAMES: Readonly<Record<string, string>> = { open: 'openExisting' };

/** A command is carried out once; a repeat gets the same response. */
export function checkCommands(ledger: Ledger, evidence: Evidence): void {
  for (const driver of evidence.drivers) {
    const session = evidence.sessionOf(driver);
    const events = evidence.events.filter((event) => event.session_id === session);
    for (const { name, key, target, answers } of driver.commanded) {
      const where = `session ${session}, ${name} ${key}`;
      const [first, again] = answers;
      ledger.check('every command gets a definite response', where, first !== undefined, () => 'none');
      if (first === undefined) continue;
      if (again !== undefined && name !== 'state') {
        const same = isDeepStrictEqual(recorded(first), recorded(again));
        ledger.check('a command sent again gets the same answer', where, same, () => answers);
      }
      // checkState() checks changes of state; a repeat returns the state as it is then.
      if (first.status === 400 || first.status === 404 || name === 'state') continue;
      const id = `${UPDATE_NAMES[name] ?? name}:${key}`;
      const receipts = events.filter((event) => event.command_id === id);
      ledger.check('a command is recorded once', where, receipts.length === 1, () => ({ id, receipts, first }));
      if (TRANSITIONS.has(name)) {
        const moved = receipts[0]?.kind === 'transition';
        ledger.check('a transition is reported to its maker only', where, moved === (first.status === 200), () => [
          first,
          receipts,
        ]);
      }
      if (name === 'cancelQueued' && first.status === 200) {
        const run = evidence.runs.findLast((one) => one.session_id === session && one.message_id === target);
        ledger.check('a cancelled message never ran', where, run?.state === 'cancelled' && run.step === 0, () => run);
      }
    }
    ledger.check(
      'every response is one of those expected',
      `session ${session}`,
      driver.api.odd.length === 0,
      () => driver.api.odd,
    );
  }
}

/** What a response has of the recorded outcome: not the message of a rewind, nor the session of a branch, as they are now. */
function recorded({ status, body }: Answered): unknown {
  const present = new Set(['message', 'session', 'chat', 'status', 'window']);
  const session = (body['session'] as { session_id?: string } | undefined)?.session_id;
  return [status, session, Object.entries(body).filter(([name]) => !present.has(name))];
}
