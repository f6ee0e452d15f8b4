// A session as it stood after each event of its log, against what was stored at that moment.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { readPast } from '../../store/past.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import type { ConsolePast } from '../../wire/console.ts';
import { compact } from './compacting.ts';
import { answered, conversation, told } from './conversation.ts';
import { freshRows, type Row, rows, Session, textPart } from './session.ts';

const db = await freshRows();

const pastOf = (session: Session, seq: number, limit = 200) => readPast(db, session.id, { seq, limit });
const idsOf = (past: ConsolePast | undefined) => past?.messages?.map(({ id }) => id);

/** The visible messages with their parts, as they are now. */
async function shownNow({ id }: Session): Promise<Row[]> {
  return rows(
    db,
    `SELECT m.id, m.role, (SELECT coalesce(jsonb_agg(jsonb_build_object('type', p.type, 'data', p.data) ORDER BY p.index), '[]')
                             FROM chat_parts p WHERE p.session_id = m.session_id AND p.message_id = m.id) AS parts
       FROM chat_messages m WHERE m.session_id = $1 AND m.hidden_at IS NULL ORDER BY m.position`,
    [id],
  );
}

async function newest(session: Session): Promise<number> {
  return (await session.events()).at(-1)!.seq;
}

const action = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('turn'), at: fc.nat() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('rewind', 'unrewind'), at: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('edit', 'regenerate', 'compact', 'publish'),
      at: fc.nat(),
      isTakenBack: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('say'), at: fc.nat(), isTakenBack: fc.constant(true) }) },
);

interface Action {
  kind: string;
  at: number;
  isTakenBack?: boolean;
}

/** Carries out an action; `logged` is called when its event is written and before anything else is. */
async function act(session: Session, { kind, at, isTakenBack = false }: Action, logged: () => Promise<void>) {
  const users = (await shownNow(session)).filter(({ role }) => role === 'user');
  const target = users[at % Math.max(1, users.length)]?.['id'] as string | undefined;
  switch (kind) {
    case 'turn':
      return told(session, newId('msg'));
    case 'unrewind':
      await session.unrewind();
      return logged();
    case 'compact':
      if ((await compact(session)) === undefined) return undefined;
      return logged();
    case 'publish':
      // It is refused, which is an event, too.
      await session.apply('publish', {});
      return logged();
    case 'say': {
      const { message_id: said } = await session.say('taken back');
      await session.apply('publish', {});
      await logged();
      return takeBack(session, said as string, logged);
    }
    default:
  }
  if (target === undefined) return undefined;
  if (kind === 'rewind') {
    await session.rewind(target);
    return logged();
  }
  const { run_seq: run, message_id: message } = await (kind === 'edit'
    ? session.edit(target, 'other')
    : session.regenerate(target));
  await logged();
  return isTakenBack ? takeBack(session, message as string, logged) : answered(session, run as number);
}

async function takeBack(session: Session, message: string, logged: () => Promise<void>): Promise<void> {
  expect(await session.cancelQueued(message)).toMatchObject({ ok: true });
  await logged();
}

it('W6 X1 the transcript after every event is the one that was visible then, or it is said not to be known', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 2, maxLength: 14 }), async (actions) => {
      const session = await Session.at('chatting', db);
      const seen = new Map<number, Row[]>();
      const logged = async () => void seen.set(await newest(session), await shownNow(session));
      for (const each of actions) await act(session, each, logged);
      for (const [seq, shown] of seen) {
        const past = (await pastOf(session, seq))!;
        if (past.unknown !== null) continue;
        expect(past.messages!.map(({ id, role, parts }) => ({ id, role, parts }))).toEqual(shown);
      }
      expect(await pastOf(session, await newest(session))).toMatchObject({ unknown: null });
    }),
    cases(30),
  );
});

it('W6 X1 what was visible under a rewind that was undone later is not known, before and after it is', async () => {
  const session = await conversation(db, 'one', 'two', 'three');
  await session.apply('publish', {});
  const before = await newest(session);
  const all = idsOf(await pastOf(session, before));
  expect(all).toHaveLength(6);
  await session.rewind('one');
  const under = await newest(session);
  expect(idsOf(await pastOf(session, under))).toEqual(['one']);
  await session.unrewind();
  expect(await pastOf(session, under)).toMatchObject({ unknown: 'unrewind', messages: null });
  for (const seq of [before, await newest(session)]) expect(idsOf(await pastOf(session, seq))).toEqual(all);
});

it('W6 W7 what was visible while a message was queued is not known once it was taken back, but if another was put in its place', async () => {
  const session = await conversation(db, 'one', 'two');
  await session.edit('two', 'zwei', { id: 'zwei' });
  const queued = await newest(session);
  expect(idsOf(await pastOf(session, queued))!.at(-1)).toBe('zwei');
  await session.edit('two', 'deux', { id: 'deux' });
  expect(idsOf(await pastOf(session, queued))!.at(-1)).toBe('zwei');
  await session.cancelQueued('deux');
  expect(await pastOf(session, queued)).toMatchObject({ unknown: 'unrewind', messages: null });
});

it('W6 W7 what was visible while a message was queued stays known if it has only named a model', async () => {
  const session = await conversation(db, 'one');
  await session.say('two', { id: 'two', model: 'b/y' });
  await session.apply('publish', {});
  const queued = await newest(session);
  await session.edit('two', 'zwei', { id: 'zwei' });
  const edited = await newest(session);
  await session.cancelQueued('zwei');
  expect(idsOf(await pastOf(session, queued))!.at(-1)).toBe('two');
  expect(idsOf(await pastOf(session, edited))!.at(-1)).toBe('zwei');
});

it('W6 X1 a summary that going back has undone leaves what was visible with it unknown', async () => {
  const session = await conversation(db, 'one', 'two', 'three');
  const summary = await compact(session);
  const compacted = await newest(session);
  expect(idsOf(await pastOf(session, compacted))).toContain(summary);
  await session.rewind('one');
  expect(await pastOf(session, compacted)).toMatchObject({ unknown: 'compaction', messages: null });
  expect(idsOf(await pastOf(session, await newest(session)))).toEqual(['one']);
});

it('W6 S4 phase, project and state are those of the log up to the event', async () => {
  const session = await Session.at('verifying', db, { project: newId('prj') });
  const events = await session.events();
  const phases: string[] = [];
  for (const { seq } of events) phases.push((await pastOf(session, seq))!.phase);
  expect(phases.slice(-2)).toEqual(['building', 'verifying']);
  expect(phases[0]).toBe('chatting');
  expect(await pastOf(session, events.length)).toMatchObject({ project_id: (await session.row())['project_id'] });
  expect(await pastOf(session, events.length + 1)).toBeUndefined();
});

it('W6 a part that is being written, or was written later, is named without what it says', async () => {
  const session = await Session.saying(db, 'hello');
  await session.claim(1, [0, 1, 1]);
  await session.append(1, [0, 1, 1], [textPart(0, 'so f', 'prt_1')], [{ part_id: 'prt_1', start: 4, text: 'ar' }]);
  await session.apply('publish', {});
  const seq = await newest(session);
  const [said, answer] = (await pastOf(session, seq))!.messages!;
  expect(said!.parts).toMatchObject([{ type: 'text', data: { text: 'hello' } }]);
  expect(answer!.parts).toEqual([{ type: 'text', data: null }]);
  const whole = { ...textPart(0, 'so far so good', 'prt_1'), settled: true };
  await session.settleStep(1, [0, 1, 1], { parts: [whole], end: true });
  expect((await pastOf(session, seq))!.messages![1]!.parts).toEqual([{ type: 'text', data: null }]);
  await session.apply('publish', {});
  const now = (await pastOf(session, await newest(session)))!;
  expect(now.messages![1]!.parts).toMatchObject([{ data: { text: 'so far so good' } }]);
});

it('T8 of a long transcript the newest messages are returned', async () => {
  const session = await conversation(db, 'one', 'two', 'three');
  await session.apply('publish', {});
  const { messages, more } = (await pastOf(session, await newest(session), 3))!;
  expect([messages!.length, messages!.at(-2)!.id, more]).toEqual([3, 'three', true]);
});
