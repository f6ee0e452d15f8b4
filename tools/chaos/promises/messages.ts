import { isDeepStrictEqual } from 'node:util';
import { by, type Evidence, type MessageRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { isStored } from '../summaries.ts';
import type { Sent } from '../user.ts';

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

function checkSent(ledger: Ledger, { messages, parts, runs, events }: Evidence, session: string, sent: Sent): void {
  const where = `session ${session}, message ${sent.id}`;
  const isAccepted = sent.status === 200 || sent.status === 202;
  const stored = messages.filter((row) => row.session_id === session && row.tag === sent.id);
  const isDropped = ({ id }: MessageRow) =>
    runs.every((run) => run.session_id !== session || run.message_id !== id || run.state === 'cancelled');
  // An edit that was dropped before its sender heard of it is sent again: as another one, which may be refused.
  const rows =
    sent.replaces === undefined
      ? stored
      : stored.filter((row, n) => !isDropped(row) || (isAccepted && n === stored.length - 1));
  ledger.check('every message gets a definite response', where, sent.status !== undefined, () => sent);
  if (!isAccepted) {
    ledger.check('a refused message is not stored', where, sent.status === undefined || rows.length === 0, () => sent);
    return;
  }
  ledger.check(
    'an accepted message is stored',
    where,
    rows.length === 1,
    () => `${rows.length} rows, answered ${sent.status}`,
  );
  const own = parts.filter((part) => part.session_id === session && part.message_id === rows[0]?.id);
  const kept = own.map(({ data }) => data['text'] ?? data['url']);
  const same = isDeepStrictEqual(kept, [sent.text, ...(sent.file ? [sent.file.url] : [])]);
  ledger.check('a message keeps its text', where, same, () => own);
  const answered = runs.filter((run) => run.session_id === session && run.message_id === rows[0]?.id);
  const again = events.filter(
    ({ session_id, kind, data }) =>
      session_id === session && kind === 'regenerate' && data['message_id'] === rows[0]?.id,
  );
  const ended = answered.length === 1 + again.length && answered.every(({ state }) => FINAL.has(state));
  ledger.check('a message has a run for each answer asked for, and it is over', where, ended, () => [answered, again]);
}

function checkNothingElse(ledger: Ledger, { drivers, messages, runs, events, tasks }: Evidence): void {
  const known = new Set(drivers.flatMap((driver) => driver.sent.map(({ id }) => id)));
  for (const { child_id, background } of tasks) if (background) known.add(`task-${child_id}`);
  const answers = new Set(runs.map((run) => `${run.session_id}/${run.answer_id}`));
  for (const { session_id, data } of events.filter((event) => isStored(event)))
    answers.add(`${session_id}/${String(data['message_id'])}`);
  for (const { id, session_id, role, tag } of messages) {
    const expected = role === 'user' ? known.has(tag) : answers.has(`${session_id}/${id}`);
    ledger.check('no message is stored that nobody sent', `session ${session_id}, message ${id}`, expected, () => role);
  }
}

function checkRuns(ledger: Ledger, { runs, messages, chats }: Evidence): void {
  // A queued message to which its session was rewound is not answered, but stays to be replaced.
  const rewound = new Set(
    chats.flatMap(({ session_id, rewinds }) => (rewinds ?? []).map((one) => `${session_id}/${one.message_id}`)),
  );
  const rows = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row]));
  const ofMessage = by(runs, (run) => `${run.session_id}/${run.message_id}`);
  for (const run of runs) {
    const where = `session ${run.session_id}, run ${run.seq}`;
    ledger.check('every run is over', where, FINAL.has(run.state), () => run);
    const asked = rows.get(`${run.session_id}/${run.message_id}`);
    const answer = rows.get(`${run.session_id}/${run.answer_id}`);
    // What a compaction by hand leaves: compactions.ts.
    if (run.kind !== 'turn') continue;
    ledger.check('a finished run has an answer', where, run.state !== 'finished' || answer !== undefined, () => run);
    ledger.check(
      'an answer follows its message',
      where,
      !answer || Math.floor(answer.position / 1_000) === asked!.position / 1_000,
      () => answer,
    );
    const message = `${run.session_id}/${run.message_id}`;
    // Answered again or before, it stays.
    const isAlone = ofMessage.get(message)!.length === 1;
    const isOpen = asked?.hidden_at === null && isAlone && !rewound.has(message);
    const right = run.state !== 'cancelled' || (!isOpen && !answer);
    ledger.check('a cancelled message is hidden, and not answered', where, right, () => ({ run, asked, answer }));
  }
}

function checkOrder(ledger: Ledger, { runs, messages }: Evidence): void {
  const positions = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row.position]));
  const turns = runs.filter(({ kind }) => kind === 'turn');
  for (const [session, all] of by(turns, (run) => run.session_id)) {
    // A message that is answered again keeps its place.
    const asked = [...new Set(all.map((run) => run.message_id))];
    const found = asked.map((message) => positions.get(`${session}/${message}`) ?? -1);
    const rising = found.every((position, n) => position % 1_000 === 0 && position > (found[n - 1] ?? 0));
    ledger.check('positions rise with the runs', `session ${session}`, rising, () => found);
  }
}
