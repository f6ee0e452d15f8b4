import { by, type Evidence, type RunRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import type { Sent } from '../driver.ts';

const FINAL: ReadonlySet<string> = new Set(['finished', 'aborted', 'error', 'cancelled']);

/** An accepted message is stored and answered once; a refused one is not stored; order is kept. */
export function checkMessages(ledger: Ledger, evidence: Evidence): void {
  for (const driver of evidence.drivers) {
    const session = evidence.sessionOf(driver);
    for (const sent of driver.sent) checkSent(ledger, evidence, session, sent);
  }
  checkNothingElse(ledger, evidence);
  checkRuns(ledger, evidence);
  checkOrder(ledger, evidence);
}

function checkSent(ledger: Ledger, { messages, parts, runs }: Evidence, session: string, sent: Sent): void {
  const where = `session ${session}, message ${sent.id}`;
  const rows = messages.filter((row) => row.session_id === session && row.id === sent.id);
  ledger.check('every message gets a definite response', where, sent.status !== undefined, () => sent);
  if (sent.status !== 200 && sent.status !== 202) {
    ledger.check('a refused message is not stored', where, sent.status === undefined || rows.length === 0, () => sent);
    return;
  }
  ledger.check(
    'an accepted message is stored',
    where,
    rows.length === 1,
    () => `${rows.length} rows, answered ${sent.status}`,
  );
  const texts = parts.filter((part) => part.session_id === session && part.message_id === sent.id);
  ledger.check(
    'a message keeps its text',
    where,
    texts.length === 1 && texts[0]!.data['text'] === sent.text,
    () => texts,
  );
  const own = runs.filter((run) => run.session_id === session && run.message_id === sent.id);
  const ended = own.length === 1 && FINAL.has(own[0]!.state);
  ledger.check('a message has one run, and it is over', where, ended, () => own);
}

function checkNothingElse(ledger: Ledger, { drivers, messages, runs }: Evidence): void {
  const known = new Set(drivers.flatMap((driver) => driver.sent.map(({ id }) => id)));
  const answers = new Set(runs.map((run) => `${run.session_id}/${run.answer_id}`));
  for (const { id, session_id, role } of messages) {
    const expected = role === 'user' ? known.has(id) : answers.has(`${session_id}/${id}`);
    ledger.check('no message is stored that nobody sent', `session ${session_id}, message ${id}`, expected, () => role);
  }
}

function checkRuns(ledger: Ledger, { runs, messages }: Evidence): void {
  const rows = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row]));
  for (const run of runs) {
    const where = `session ${run.session_id}, run ${run.seq}`;
    ledger.check('every run is over', where, FINAL.has(run.state), () => run);
    const asked = rows.get(`${run.session_id}/${run.message_id}`);
    const answer = rows.get(`${run.session_id}/${run.answer_id}`);
    ledger.check('a finished run has an answer', where, run.state !== 'finished' || answer !== undefined, () => run);
    ledger.check(
      'an answer follows its message',
      where,
      !answer || answer.position === asked!.position + 1,
      () => answer,
    );
    const cause = asked?.metadata.hidden_by?.cause;
    const hidden = asked !== undefined && asked.hidden_at !== null;
    const right = run.state === 'cancelled' ? hidden && cause === 'cancelled' && !answer : !hidden;
    ledger.check('cancelled messages are hidden, no others', where, right, () => ({ run, asked, answer }));
  }
}

function checkOrder(ledger: Ledger, { runs, messages }: Evidence): void {
  const positions = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row.position]));
  for (const [session, all] of by(runs, (run) => run.session_id)) {
    const found = all.map((run: RunRow) => positions.get(`${session}/${run.message_id}`) ?? -1);
    const rising = found.every((position, n) => position % 1_000 === 0 && position > (found[n - 1] ?? 0));
    ledger.check('positions rise with the runs', `session ${session}`, rising, () => found);
  }
}
