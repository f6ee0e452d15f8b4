// Random sequences of turns, rewinds, un-rewinds, edits, new answers and branches, against a plain model.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { answered, everything } from './conversation.ts';
import { freshRows, type Row, rows, Session } from './session.ts';

const db = await freshRows();

/** What is visible: a user message by its id, an answer by the number of its run. */
type Line = { user: string } | { answer: number };

/** A conversation as a list. The stack has what each open rewind took away, and the rows as they were before it. */
interface Model {
  session: Session;
  lines: Line[];
  rewinds: { rest: Line[]; target: string; before: Row[] }[];
  runs: number;
}

const action = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('turn', 'unanswered turn') }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('rewind'), at: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('unrewind') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('edit', 'regenerate', 'branch'), at: fc.nat() }) },
);
type Action = { kind: string; at?: number };

/** A user message of the model, by a random number; undefined: there is none. */
function target({ lines }: Model, at = 0): { id: string; index: number } | undefined {
  const users = lines.flatMap((line, index) => ('user' in line ? [{ id: line.user, index }] : []));
  return users[at % Math.max(1, users.length)];
}

async function answer(model: Model): Promise<void> {
  model.runs += 1;
  await answered(model.session, model.runs);
  model.lines.push({ answer: model.runs });
}

/** Says something new, which replaces the message that was gone back to. */
async function turn(model: Model, isAnswered: boolean): Promise<void> {
  const { session, rewinds, lines } = model;
  const id = newId('msg');
  expect(await session.say('text', { id })).toMatchObject({ ok: true, run_seq: model.runs + 1 });
  if (rewinds.length > 0) lines.pop();
  model.rewinds = [];
  lines.push({ user: id });
  if (isAnswered) return answer(model);
  model.runs += 1;
  await session.claim(model.runs, [0, model.runs, 1]);
  await session.settleRun(model.runs, 'aborted');
}

async function rewind(model: Model, at: number | undefined): Promise<void> {
  const found = target(model, at);
  if (found === undefined) return;
  const { session, lines, rewinds } = model;
  const before = await everything(session);
  const rest = lines.slice(found.index + 1);
  expect(await session.rewind(found.id)).toMatchObject({ ok: true, hidden: rest.length });
  model.lines = lines.slice(0, found.index + 1);
  if (rewinds.at(-1)?.target !== found.id) rewinds.push({ rest, target: found.id, before });
}

async function unrewind(model: Model): Promise<void> {
  const outcome = await model.session.unrewind();
  const last = model.rewinds.pop();
  if (last === undefined) {
    expect(outcome).toMatchObject({ ok: false, code: 'NothingToUnrewind' });
    return;
  }
  expect(outcome).toMatchObject({ ok: true, message_id: last.target, shown: last.rest.length });
  model.lines.push(...last.rest);
  expect(await everything(model.session), 'the same bytes').toEqual(last.before);
}

async function edit(model: Model, at: number | undefined): Promise<void> {
  const found = target(model, at);
  if (found === undefined) return;
  const id = newId('msg');
  expect(await model.session.edit(found.id, newId('msg'), { id })).toMatchObject({ accepted: true, message_id: id });
  model.lines = [...model.lines.slice(0, found.index), { user: id }];
  model.rewinds = [];
  await answer(model);
}

async function regenerate(model: Model, at: number | undefined): Promise<void> {
  const found = target(model, at);
  if (found === undefined) return;
  expect(await model.session.regenerate(found.id)).toMatchObject({ accepted: true, message_id: found.id });
  model.lines = model.lines.slice(0, found.index + 1);
  model.rewinds = [];
  await answer(model);
}

/** The rest of the sequence happens in the branch. */
async function branch(model: Model, at: number | undefined): Promise<void> {
  const found = target(model, at);
  if (found === undefined) return;
  const before = await everything(model.session);
  const outcome = await model.session.apply('branch', { from_message_id: found.id });
  expect(await everything(model.session), 'the parent is as it was').toEqual(before);
  const copy = new Session(db, outcome['session_id'] as string);
  const originals = model.lines.slice(0, found.index + 1);
  const copies = await visibleRows(copy);
  expect(copies.map(({ text }) => text)).toEqual(
    (await visibleRows(model.session)).slice(0, originals.length).map(({ text }) => text),
  );
  model.session = copy;
  model.rewinds = [];
  model.lines = copies.map(({ id, role, text }) =>
    role === 'user' ? { user: id } : { answer: Number(text.replace('answer ', '')) },
  );
  const [last] = await rows(db, 'SELECT coalesce(max(seq), 0) AS seq FROM chat_runs WHERE session_id = $1', [copy.id]);
  model.runs = last!['seq'] as number;
}

async function visibleRows(session: Session): Promise<{ id: string; role: string; text: string }[]> {
  const found = await rows(
    db,
    `SELECT m.id, m.role, p.data ->> 'text' AS text
       FROM chat_messages m JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id
      WHERE m.session_id = $1 AND m.hidden_at IS NULL ORDER BY m.position`,
    [session.id],
  );
  return found as { id: string; role: string; text: string }[];
}

async function act(model: Model, { kind, at }: Action): Promise<void> {
  switch (kind) {
    case 'turn':
    case 'unanswered turn':
      return turn(model, kind === 'turn');
    case 'rewind':
      return rewind(model, at);
    case 'unrewind':
      return unrewind(model);
    case 'edit':
      return edit(model, at);
    case 'regenerate':
      return regenerate(model, at);
    default:
      return branch(model, at);
  }
}

/** The sums of all answers, visible and hidden. */
async function spent(session: Session): Promise<Row> {
  const [sums] = await rows(
    db,
    `SELECT coalesce(sum((metadata #>> '{usage,input}')::int), 0)::int AS prompt_tokens,
            coalesce(sum((metadata #>> '{usage,output}')::int), 0)::int AS completion_tokens
       FROM chat_messages WHERE session_id = $1 AND role = 'assistant'`,
    [session.id],
  );
  return sums!;
}

it('X1 X4 U2 visible messages, what an un-rewind restores, and sums are those of a plain model', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 1, maxLength: 20 }), async (actions) => {
      const model: Model = { session: await Session.at('chatting', db), lines: [], rewinds: [], runs: 0 };
      for (const each of actions) {
        await act(model, each);
        const shown = await visibleRows(model.session);
        expect(
          shown.map(({ id, role, text }) => (role === 'user' ? { user: id } : { answer: Number(text.slice(7)) })),
        ).toEqual(model.lines);
        expect(await model.session.chat()).toMatchObject(await spent(model.session));
      }
    }),
    cases(30),
  );
});
