import { answeredAgain } from '../answered-again.ts';
import type { Rows } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import type { Regenerated } from '../user.ts';

/** A request that names the answer that it replaces makes another one once, however often it is sent. */
export function checkRegenerates(
  ledger: Ledger,
  session: string,
  asked: readonly Regenerated[],
  rows: Pick<Rows, 'runs' | 'events' | 'messages'>,
): void {
  if (asked.length === 0) return;
  const runs = rows.runs.filter((run) => run.session_id === session);
  const edited = new Set(
    rows.messages
      .filter((row) => row.session_id === session && row.metadata.hidden_by?.cause === 'edit')
      .map(({ id }) => id),
  );
  const named = new Set<string>();
  let most = 0;
  for (const { message, replaced, tries, status } of asked) {
    // Of a message that was edited since it was listed, the newest version is answered again, at each try.
    const isNamed = runs.some((run) => run.message_id === message && run.answer_id === replaced);
    if (!isNamed || edited.has(message)) {
      most += tries;
      continue;
    }
    named.add(`${message} ${replaced}`);
    const newest = runs.findLast((run) => run.message_id === message);
    const isReplaced = status !== 200 || newest?.answer_id !== replaced;
    ledger.check('an answer is replaced once', `session ${session}, answer ${replaced}`, isReplaced, () => newest);
  }
  const events = rows.events.filter((event) => event.session_id === session);
  const made = answeredAgain({ runs, events }).filter(({ isTakenBack }) => !isTakenBack);
  most += named.size;
  ledger.check('an answer is replaced once', `session ${session}`, made.length <= most, () => ({ made, most, asked }));
}
