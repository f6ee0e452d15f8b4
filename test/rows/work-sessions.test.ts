// Work sessions of chat sessions that end: what happens at the same moment.
import { expect, it } from 'vitest';
import { eraseSession } from '../../store/erasure.ts';
import { joinInitiative } from '../../store/initiatives.ts';
import { parentAndChild, spawn } from './family.ts';
import { Initiative } from './initiative.ts';
import { freshRows, rows, Session } from './session.ts';

const db = await freshRows();

const ends = async (work: Initiative) => (await work.view()).sessions.map(({ status, notes }) => [status, notes]);
const erase = ({ id, user }: Session) =>
  eraseSession(db, { sessionId: id, userId: user, home: 'home', wholeUser: false });

it('I7 P4 a parent of two subagents at work is closed while one of them ends by itself', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const { parent, run } = await parentAndChild(db, { background: true }, { calls: ['call_1', 'call_2'] });
  await parent.beginTool(run, [0, 2, 1], 'call_2');
  await spawn(parent, run, 'call_2', { background: true });
  const children = await rows(db, 'SELECT child_id FROM tasks WHERE parent_id = $1 ORDER BY 1', [parent.id]);
  const [first, second] = children.map(({ child_id }) => new Session(db, String(child_id)));
  for (const child of [first!, second!]) expect(await work.take(child)).toMatchObject({ ok: true });
  await second!.claim(1, [0, 1, 1]);
  const [closed] = await work.whileLocked(
    () => parent.close(true),
    () => second!.settleStep(1, [0, 1, 1], { end: true }),
  );
  expect(closed).toMatchObject({ ok: true });
  expect(await ends(work)).toEqual([
    ['ended', 'The subagent has ended'],
    ['ended', 'The subagent has ended'],
  ]);
});

it('I7 T9 a subagent is erased while it begins another work session', async () => {
  const work = await Initiative.of([[['one', 'two']]], db);
  const { child } = await parentAndChild(db, { background: true });
  expect(await work.take(child)).toMatchObject({ ok: true });
  const start = () => work.apply('start_session', { agent: 'verifier', session_id: child.id });
  const [, started] = await work.whileLocked(() => erase(child), start);
  expect(started).toMatchObject({ ok: false, code: 'SessionNotFound' });
  expect(await ends(work)).toEqual([['ended', 'The chat session was erased']]);
});

it('I7 T9 chat sessions that work in two initiatives are erased and closed at the same moment', async () => {
  const both = [await Initiative.of([[['one']]], db), await Initiative.of([[['one']]], db)];
  const [first, second] = both.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const [erased, closed] = [await Session.at('chatting', db), await Session.at('chatting', db)];
  // It is active in the second one only.
  await first!.apply('end_session', { id: await first!.session({ session_id: erased.id }) });
  await second!.session({ session_id: erased.id });
  for (const work of [first!, second!]) await work.session({ session_id: closed.id });
  const [answer] = await first!.whileLocked(
    () => closed.close(),
    () => erase(erased),
  );
  expect(answer).toMatchObject({ ok: true });
  const end = ['ended', 'The chat session was closed'];
  expect([await ends(first!), await ends(second!)]).toEqual([
    [['ended', null], end],
    [['ended', 'The chat session was erased'], end],
  ]);
});

it.each(['before', 'after'] as const)(
  'I7 a task that is asked for %s its chat session closes is not left held',
  async (when) => {
    const work = await Initiative.of([[['one']]], db);
    const chat = await Session.at('chatting', db);
    await joinInitiative(db, { userId: 'ada', initiativeId: work.id, sessionId: chat.id });
    const calls = [() => work.take(chat), () => chat.close()];
    const answers = await work.whileLocked(...(when === 'before' ? calls : calls.toReversed()));
    const [taken, closed] = when === 'before' ? answers : answers.toReversed();
    expect(closed).toMatchObject({ ok: true });
    expect(taken).toMatchObject(
      when === 'before' ? { ok: true } : { code: 'InvalidTransition', machine: 'chat_session', status: 'over' },
    );
    expect(await ends(work)).toEqual(when === 'before' ? [['ended', 'The chat session was closed']] : []);
    expect(await work.take(await Session.at('chatting', db))).toMatchObject({ ok: true });
  },
);

it('I7 P4 a subagent that is over begins no work session', async () => {
  const work = await Initiative.of([[['one']]], db);
  const { parent, child } = await parentAndChild(db, { background: true });
  await parent.close(true);
  expect(await work.take(child)).toMatchObject({ code: 'InvalidTransition' });
  expect(await ends(work)).toEqual([]);
});

it('I3 I7 tasks that are taken in a chat session while it is erased deadlock nothing, and none is held afterwards', async () => {
  const codes = new Set<string | undefined>();
  let begun = 0;
  for (let round = 0; round < 30; round += 1) {
    const work = await Initiative.of([[['one']]], db);
    const chats = await Promise.all([Session.at('chatting', db), Session.at('chatting', db)]);
    const asked = await Promise.all([
      ...chats.map((chat) => work.take(chat)),
      ...chats.map(async (chat) => {
        await erase(chat);
        return { code: undefined };
      }),
      ...chats.map((chat) => work.take(chat)),
    ]);
    for (const { code } of asked) codes.add(code);
    const { sessions, phases } = await work.view();
    begun += sessions.length;
    expect(sessions.filter(({ status, session_id }) => status === 'active' || session_id !== null)).toEqual([]);
    expect(phases[0]!.plans[0]!.tasks).toMatchObject([{ status: 'open', assigned_to: null }]);
  }
  expect(begun).toBeGreaterThan(0);
  // InvalidTransition: its work session has ended meanwhile.
  const fine = new Set([undefined, 'SessionNotFound', 'InvalidTransition']);
  expect([...codes].filter((code) => !fine.has(code))).toEqual([]);
});
