// A session's rows beside a plain model of them, and random actions on both: messages, turns, rewinds, un-rewinds, edits, new answers,
// compactions and branches, and messages that are taken back.
import fc from 'fast-check';
import { expect } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { compact } from './compacting.ts';
import { answered, everything } from './conversation.ts';
import { type Row, rows, Session } from './session.ts';

/** What is visible: a user message by its id, an answer by the number of its run, a summary with what it stands for. */
type Line = { user: string } | { answer: number } | { summary: string; of: Line[] };

/** A conversation that can be come back to, with the rows as they were. */
interface Stage {
  lines: Line[];
  rewinds: Rewind[];
  before: Row[];
}
/** A rewind, and what its un-rewind comes back to; `hidden`: how many messages it has hidden, unless its target was queued. */
type Rewind = Stage & { target: string; hidden: number | undefined };

/** A queued message; `isAgain`: another answer to a message that is part of the conversation. */
interface Queued {
  id: string;
  run: number;
  isAgain: boolean;
}

export interface Model {
  session: Session;
  /** The conversation without the queue: what was begun. */
  lines: Line[];
  /** The rewinds that can be undone, unless a message is queued. */
  rewinds: Rewind[];
  queue: Queued[];
  /** What a queued message has replaced: the lines that are left, and the rows as they were before it. */
  replaced: { by: string; left: Line[]; before: Row[] } | undefined;
  runs: number;
}

/** A random action. */
export const action = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('turn', 'unanswered turn') }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('say', 'unrewind', 'answer') }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('rewind', 'take back'), at: fc.nat() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('edit', 'regenerate', 'branch'), at: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('compact') }) },
);
export type Action = { kind: string; at?: number };

/** The lines up to a user message, with it; undefined: it is not among them, nor among those that are summarized. */
function upTo(lines: readonly Line[], id: string): Line[] | undefined {
  for (const [n, line] of lines.entries()) {
    if ('user' in line && line.user === id) return lines.slice(0, n + 1);
    const within = 'of' in line ? upTo(line.of, id) : undefined;
    if (within !== undefined) return within;
  }
  return undefined;
}

function usersOf(lines: readonly Line[]): string[] {
  return lines.flatMap((line) => ('user' in line ? [line.user] : 'of' in line ? usersOf(line.of) : []));
}

/** The conversation without the queue, as it is while messages in it stand in the place of others. */
const left = ({ lines, replaced }: Model) => replaced?.left ?? lines;

/** What is visible, with the queue. */
export const linesOf = (model: Model): Line[] => [
  ...left(model),
  ...model.queue.flatMap(({ id, isAgain }) => (isAgain ? [] : [{ user: id }])),
];

/** A user message by a random number; undefined: there is none. */
function target(model: Model, at = 0): string | undefined {
  const users = usersOf(linesOf(model));
  return users[at % Math.max(1, users.length)];
}

/** Says something new, which replaces the message that was gone back to. */
async function say(model: Model): Promise<void> {
  const id = newId('msg');
  const before = await everything(model.session);
  model.runs += 1;
  expect(await model.session.say('text', { id })).toMatchObject({ ok: true, run_seq: model.runs });
  if (model.rewinds.length > 0 && model.replaced === undefined) {
    model.replaced = { by: id, left: model.lines.slice(0, -1), before };
  }
  model.queue.push({ id, run: model.runs, isAgain: false });
}

/** Begins and ends the first run of the queue. */
async function run(model: Model, isAnswered = true): Promise<void> {
  const { session, queue } = model;
  const first = queue.shift();
  if (first === undefined) return;
  model.lines = [...left(model), ...(first.isAgain ? [] : [{ user: first.id }])];
  model.rewinds = [];
  model.replaced = undefined;
  if (isAnswered) {
    await answered(session, first.run);
    model.lines.push({ answer: first.run });
  } else {
    await session.claim(first.run, [0, first.run, 1]);
    await session.settleRun(first.run, 'aborted');
  }
}

async function runAll(model: Model): Promise<void> {
  while (model.queue.length > 0) await run(model);
}

/** Nothing stands in the place of what was replaced any more, or after a rewind the next queued message does. */
function giveBack(model: Model): void {
  const [next] = model.queue;
  const before = model.replaced!.before;
  model.replaced = undefined;
  if (next !== undefined && model.rewinds.length > 0) {
    model.replaced = { by: next.id, left: model.lines.slice(0, -1), before };
  }
}

/** The rows that there were, as they are now. */
async function sameRows(session: Session, before: Row[]): Promise<Row[]> {
  const ids = new Set(before.map((row) => row['id']));
  return (await everything(session)).filter((row) => ids.has(row['id']));
}

async function takeBack(model: Model, at = 0): Promise<void> {
  const { session, queue, replaced } = model;
  const taken = queue[at % Math.max(1, queue.length)];
  if (taken === undefined) return;
  expect(await session.cancelQueued(taken.id)).toMatchObject({ ok: true, run_seq: taken.run });
  queue.splice(queue.indexOf(taken), 1);
  if (replaced?.by === taken.id) giveBack(model);
  if (replaced !== undefined && model.replaced === undefined) {
    expect(await sameRows(session, replaced.before), 'the same bytes').toEqual(replaced.before);
  }
}

/** A rewind, edit or new answer has taken everything out of the queue, but for the message that is gone back to. */
function dropQueue(model: Model, kept?: Queued): void {
  model.queue = kept === undefined ? [] : [kept];
  if (model.replaced !== undefined && model.replaced.by !== kept?.id) giveBack(model);
}

/** Those that were queued with their messages. */
const idsOf = (queue: readonly Queued[]) => queue.flatMap(({ id, isAgain }) => (isAgain ? [] : [id]));

async function rewind(model: Model, at: number | undefined): Promise<void> {
  const id = target(model, at);
  if (id === undefined) return;
  const { session, queue } = model;
  const abort = queue.length > 0;
  const dropped = idsOf(queue);
  if (abort) expect(await session.rewind(id)).toMatchObject({ ok: false, code: 'RunInFlight' });
  const queued = queue.find((each) => each.id === id && !each.isAgain);
  dropQueue(model, queued);
  const { lines, rewinds } = model;
  const before = model.replaced?.before ?? (await everything(session));
  const outcome = await session.rewind(id, { abort });
  model.lines = queued === undefined ? upTo(lines, id)! : linesOf(model);
  const hidden = queued === undefined ? without(lines, model.lines) : 0;
  expect(outcome).toMatchObject({ ok: true, dropped, hidden });
  model.queue = [];
  model.replaced = undefined;
  // Going back to a message once more changes nothing.
  if (queued === undefined && rewinds.at(-1)?.target === id) return;
  const undone = { target: id, hidden: queued === undefined ? hidden : undefined };
  model.rewinds = [...rewinds, { ...undone, lines, rewinds, before: abort ? [] : before }];
}

/** How many lines are not among others. */
function without(lines: readonly Line[], others: readonly Line[]): number {
  return lines.filter((line) => !others.includes(line)).length;
}

async function unrewind(model: Model): Promise<void> {
  const outcome = await model.session.unrewind();
  const last = model.rewinds.at(-1);
  if (last === undefined || model.queue.length > 0) {
    expect(outcome).toMatchObject({ ok: false, code: 'NothingToUnrewind' });
    return;
  }
  expect(outcome).toMatchObject({ ok: true, message_id: last.target, shown: last.hidden ?? expect.any(Number) });
  ({ lines: model.lines, rewinds: model.rewinds } = last);
  expect(await sameRows(model.session, last.before), 'the same bytes').toEqual(last.before);
}

async function edit(model: Model, at: number | undefined): Promise<void> {
  const edited = target(model, at);
  if (edited === undefined) return;
  const { session, queue } = model;
  const id = newId('msg');
  const exchanged = queue.find((each) => each.id === edited && !each.isAgain);
  const wasQueued = queue.length > 0;
  const before = await everything(session);
  const dropped = exchanged === undefined ? idsOf(queue) : [edited];
  model.runs += 1;
  const outcome = await session.edit(edited, newId('msg'), { id });
  expect(outcome).toMatchObject({ accepted: true, message_id: id, run_seq: model.runs, dropped });
  if (exchanged === undefined) {
    dropQueue(model);
    const kept = upTo(model.lines, edited)!.slice(0, -1);
    model.replaced = { by: id, left: kept, before: wasQueued ? [] : before };
  } else {
    queue.splice(queue.indexOf(exchanged), 1);
    if (model.replaced?.by === edited) model.replaced.by = id;
  }
  model.queue.push({ id, run: model.runs, isAgain: false });
}

async function regenerate(model: Model, at: number | undefined): Promise<void> {
  const id = target(model, at);
  if (id === undefined) return;
  const { session, queue } = model;
  const before = await everything(session);
  const dropped = idsOf(queue);
  const wasQueued = queue.length > 0;
  const outcome = await session.regenerate(id);
  if (queue.some((each) => each.id === id)) {
    expect(outcome, 'it will be answered').toMatchObject({ accepted: false, message_id: id });
    return;
  }
  model.runs += 1;
  expect(outcome).toMatchObject({ accepted: true, message_id: id, run_seq: model.runs, dropped });
  dropQueue(model);
  model.replaced = { by: id, left: upTo(model.lines, id)!, before: wasQueued ? [] : before };
  model.queue.push({ id, run: model.runs, isAgain: true });
}

/** Summarizes all turns but the newest. */
async function compactAll(model: Model): Promise<void> {
  const { session, lines, queue, rewinds } = model;
  if (queue.length > 0 || rewinds.length > 0) return;
  const summary = await compact(session);
  if (summary === undefined) return;
  model.runs += 1;
  const tail = lines.findLastIndex((line) => 'user' in line);
  model.lines = [{ summary, of: lines.slice(0, tail) }, ...lines.slice(tail)];
}

/** The rest of the sequence happens in the branch. */
async function branch(model: Model, at: number | undefined): Promise<void> {
  const id = target(model, at);
  if (id === undefined) return;
  const before = await everything(model.session);
  const outcome = await model.session.apply('branch', { from_message_id: id });
  expect(await everything(model.session), 'the parent is as it was').toEqual(before);
  if (model.queue.length > 0) {
    expect(outcome).toMatchObject({ ok: false, code: 'RunInFlight' });
    return;
  }
  const copy = new Session(model.session.db, outcome['session_id'] as string);
  const originals = upTo(model.lines, id)!;
  const copies = await visibleRows(copy);
  expect(copies.map(({ role, text }) => (role === 'user' ? 'user' : text))).toEqual(originals.map(nameOf));
  model.session = copy;
  model.rewinds = [];
  // What is summarized was not copied.
  model.lines = copies.map(({ id: own, role, text }) =>
    role === 'user'
      ? { user: own }
      : text.startsWith('answer ')
        ? { answer: Number(text.slice(7)) }
        : { summary: own, of: [] },
  );
  const [last] = await rows(copy.db, 'SELECT coalesce(max(seq), 0) AS seq FROM chat_runs WHERE session_id = $1', [
    copy.id,
  ]);
  model.runs = last!['seq'] as number;
}

export const nameOf = (line: Line) =>
  'user' in line ? 'user' : 'answer' in line ? `answer ${line.answer}` : 'summary';

export async function visibleRows(session: Session): Promise<{ id: string; role: string; text: string }[]> {
  const found = await rows(
    session.db,
    `SELECT m.id, m.role, coalesce(p.data ->> 'text', 'summary') AS text
       FROM chat_messages m JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id
      WHERE m.session_id = $1 AND m.hidden_at IS NULL ORDER BY m.position`,
    [session.id],
  );
  return found as { id: string; role: string; text: string }[];
}

/** Does an action, and checks what it answers. */
export async function act(model: Model, { kind, at }: Action): Promise<void> {
  switch (kind) {
    case 'turn':
    case 'unanswered turn':
      await runAll(model);
      await say(model);
      return run(model, kind === 'turn');
    case 'say':
      return say(model);
    case 'answer':
      return run(model);
    case 'take back':
      return takeBack(model, at);
    case 'rewind':
      return rewind(model, at);
    case 'unrewind':
      return unrewind(model);
    case 'edit':
      return edit(model, at);
    case 'regenerate':
      return regenerate(model, at);
    case 'compact':
      return compactAll(model);
    default:
      return branch(model, at);
  }
}

/** A session without messages. */
export function newModel(session: Session): Model {
  return { session, lines: [], rewinds: [], queue: [], replaced: undefined, runs: 0 };
}
