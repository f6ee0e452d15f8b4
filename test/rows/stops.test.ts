// Commands that stop a run, and are carried out at once or late.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { parentAndChild, spawn } from './family.ts';
import { type Answer, freshRows, Session } from './session.ts';

let db: pg.Pool;
beforeAll(async () => {
  db = await freshRows();
});

const NOTHING = { ok: true, aborted: false, run_seq: null, children: [] };
const states = async (session: Session) => (await session.runs()).map(({ state }) => state);
/** The runs that were asked to stop. */
const asked = async (session: Session) =>
  (await session.runs()).filter((run) => run['abort_requested_at'] !== null).map(({ seq }) => seq);

/** Accepts a command to stop; the result carries it out, with what it has meant then. */
async function accepted(session: Session, name: 'abort' | 'cancel', message?: string): Promise<() => Promise<Answer>> {
  const meant = await session.stopMeant(message ?? null);
  return () => session.apply(name, { ...(message !== undefined && { message_id: message }), meant });
}

describe.each(['abort', 'cancel'] as const)('%s', (name) => {
  it('R4 that names a message ends its run: in flight, in the queue alone, or over already', async () => {
    const session = await Session.saying(db, 'one', 'two', 'three');
    await session.claim(1, [0, 1, 1]);
    expect(await session.apply(name, { message_id: 'two' })).toMatchObject({ aborted: true, run_seq: 2 });
    expect([await states(session), await asked(session)]).toEqual([['running', 'aborted', 'queued'], []]);
    expect(await session.apply(name, { message_id: 'two' })).toMatchObject(NOTHING);
    expect(await session.apply(name, { message_id: 'one' })).toMatchObject({ aborted: true, run_seq: 1 });
    expect(await asked(session)).toEqual([1]);
    await session.settleRun(1, 'aborted');
    expect(await session.apply(name, { message_id: 'one' })).toMatchObject(NOTHING);
    expect([await states(session), await asked(session)]).toEqual([['aborted', 'aborted', 'queued'], [1]]);
  });

  it('R4 that names no message of the user is refused, with the field', async () => {
    const session = await Session.saying(db, 'one');
    await session.claim(1, [0, 1, 1]);
    await session.append(1, [0, 1, 1], []);
    const { answer_id } = await session.run(1);
    const field = 'message_id';
    expect(await session.apply(name, { message_id: 'none' })).toMatchObject({
      ok: false,
      code: 'MessageNotFound',
      field,
    });
    expect(await session.apply(name, { message_id: answer_id })).toMatchObject({
      ok: false,
      code: 'NotUserMessage',
      field,
    });
    expect(await asked(session)).toEqual([]);
  });

  it.each([undefined, 'one'])(
    'R4 carried out after its run (message %s) leaves the next one alone',
    async (message) => {
      const session = await Session.saying(db, 'one', 'two');
      await session.claim(1, [0, 1, 1]);
      const late = await accepted(session, name, message);
      await session.answer(1, [0, 1, 2]);
      await session.claim(2, [0, 2, 1]);
      expect(await late()).toMatchObject(NOTHING);
      expect([await states(session), await asked(session)]).toEqual([['finished', 'running'], []]);
    },
  );

  it('R4 of a message that was answered again or edited since means the run of then', async () => {
    const session = await Session.saying(db, 'one');
    await session.answer(1);
    await session.regenerate('one');
    await session.claim(2, [0, 2, 1]);
    const second = await accepted(session, name, 'one');
    await session.edit('one', 'else', { id: 'new' });
    expect(await second()).toMatchObject(NOTHING);
    const third = await accepted(session, name, 'one');
    expect(await asked(session)).toEqual([]);
    // The page may know the message by the id that it had before.
    expect(await third()).toMatchObject({ aborted: true, run_seq: 3 });
  });
});

it('R4 an abort that was accepted while nothing was in flight aborts nothing later, also from a paused queue', async () => {
  const session = await Session.saying(db, 'one', 'two');
  await session.claim(1, [0, 1, 1]);
  await session.settleRun(1, 'error', [0, 1, 1]);
  const late = await accepted(session, 'abort');
  await session.say('go on', { id: 'three' });
  await session.claim(2, [0, 2, 1]);
  expect(await late()).toMatchObject(NOTHING);
  expect([await states(session), await asked(session)]).toEqual([['error', 'running', 'queued'], []]);
});

it('R4 an abort of a message in a paused queue ends its run', async () => {
  const session = await Session.saying(db, 'one', 'two');
  await session.claim(1, [0, 1, 1]);
  await session.settleRun(1, 'error', [0, 1, 1]);
  expect(await session.apply('abort', { message_id: 'two' })).toMatchObject({ aborted: true, run_seq: 2 });
  expect(await states(session)).toEqual(['error', 'aborted']);
});

it('R4 P4 a late abort ends the children in the background from then, and none of later runs', async () => {
  const { parent, run, child } = await parentAndChild(db, { background: true });
  await parent.finishTool(run, [0, 2, 1], 'call_1');
  await parent.settleStep(run, [0, 2, 1], { step: 1, end: true });
  const late = await accepted(parent, 'abort');
  const later = await parent.runWithCalls(['call_2'], [0, 3, 1]);
  await parent.beginTool(later, [0, 4, 1], 'call_2');
  const { session_id } = await spawn(parent, later, 'call_2', { fence: [0, 4, 1] });
  expect(await late()).toMatchObject({ aborted: false, children: [{ session_id: child.id }] });
  expect(await child.run(1)).toMatchObject({ state: 'aborted' });
  expect(await new Session(db, session_id).run(1)).toMatchObject({ state: 'queued' });
  expect(await asked(parent)).toEqual([]);
});

describe('a cancel that is carried out late', () => {
  it('S5 leaves the phase of a run that it does not mean, and of a phase that was entered since', async () => {
    const session = await Session.at('building', db);
    await session.say('one', { id: 'one' });
    await session.claim(1, [0, 1, 1]);
    const late = await accepted(session, 'cancel');
    await session.answer(1, [0, 1, 2]);
    const idle = await accepted(session, 'cancel');
    await session.say('two', { id: 'two' });
    for (const cancel of [late, idle]) {
      expect(await cancel()).toMatchObject({ ...NOTHING, cancelled: false, phase: 'building' });
    }
    await session.answer(2);
    const before = await accepted(session, 'cancel');
    await session.raise('todo_done_build');
    expect(await before()).toMatchObject({ ...NOTHING, cancelled: false, phase: 'verifying' });
    expect(await asked(session)).toEqual([]);
  });

  it('S5 changes the phase if nothing has begun since, also when its run is over', async () => {
    const session = await Session.at('building', db);
    await session.say('one', { id: 'one' });
    const late = await accepted(session, 'cancel');
    await session.answer(1);
    expect(await late()).toMatchObject({ ok: true, cancelled: true, aborted: false, phase: 'chatting' });
  });

  it('S5 is refused where the phase knows none, unless it has meant a run', async () => {
    const session = await Session.at('verifying', db);
    const idle = await accepted(session, 'cancel');
    await session.say('one', { id: 'one' });
    const busy = await accepted(session, 'cancel');
    await session.apply('publish', {});
    await session.answer(1);
    expect(await busy()).toMatchObject({ ...NOTHING, cancelled: false, phase: 'done' });
    expect(await idle()).toMatchObject({ ok: false, code: 'InvalidTransition' });
  });
});
