import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { type Answer, freshRows, Session, textPart } from './session.ts';

const db = await freshRows();

const REFUSED = { name: 'rewind', code: 'NotSupported' };

const fence = (ordinal: number): Fence => [0, ordinal, 1];

const states = async (session: Session) => (await session.runs()).map((run) => run['state']);
const closed = async (session: Session) => (await session.chat())['closed_at'] !== null;

it('W8 with a run in flight or queued a close is refused', async () => {
  const session = await Session.saying(db, 'one');
  expect(await session.close()).toMatchObject({ ok: false, code: 'RunInFlight' });
  await session.claim(1, fence(1));
  expect(await session.close()).toMatchObject({ ok: false, code: 'RunInFlight' });
  expect(await closed(session)).toBe(false);
  await session.settleStep(1, fence(1), { end: true });
  expect(await session.close()).toMatchObject({ ok: true, aborted: false, run_seq: null, dropped: [] });
  expect(await closed(session)).toBe(true);
  expect(await session.load()).toMatchObject({ runs: [] });
});

it('W8 a close with abort stops the running run, and returns the queued messages that it drops', async () => {
  const session = await Session.saying(db, 'one', 'two', 'three');
  await session.claim(1, fence(1));
  expect(await session.close(true)).toMatchObject({ ok: true, aborted: true, run_seq: 1, dropped: ['two', 'three'] });
  expect(await states(session)).toEqual(['running', 'cancelled', 'cancelled']);
  expect((await session.messages()).map((message) => message['hidden_at'] !== null)).toEqual([false, true, true]);
  expect(await session.append(1, fence(1), [textPart(0, 'last words')])).toBe('abort');
  await session.settleRun(1, 'aborted');
  expect(await closed(session)).toBe(true);
});

it('W8 a close with abort drops a paused queue too', async () => {
  const session = await Session.saying(db, 'one', 'two');
  await session.settleRun(1, 'error');
  expect(await session.close(true)).toMatchObject({ ok: true, aborted: false, dropped: ['two'] });
  expect(await states(session)).toEqual(['error', 'cancelled']);
});

it.each<[string, (session: Session) => Promise<unknown>]>([
  ['a message', (session) => session.say('again')],
  ['publish', (session) => session.raise('publish')],
  ['cancel', (session) => session.cancel()],
  ['abort', (session) => session.abort()],
])('W8 %s opens a closed session again', async (_name, command) => {
  const session = await Session.at('verifying', db);
  await session.close();
  expect(await closed(session)).toBe(true);
  await command(session);
  expect(await closed(session)).toBe(false);
});

it('W8 opening a project opens a closed session again', async () => {
  const session = await Session.at('chatting', db);
  await session.close();
  expect(await session.openExisting(newId('prj'))).not.toHaveProperty('closed');
  expect(await closed(session)).toBe(false);
});

it.each<[string, (session: Session) => Promise<Answer>]>([
  ['publish', (session) => session.raise('publish')],
  ['cancel', (session) => session.cancel()],
  ['the cancel of a queued message', (session) => session.cancelQueued('nothing')],
  ['a signal', (session) => session.apply('refuse', REFUSED, newId('cmd'), 'operator')],
])('W8 %s that is refused leaves a closed session closed, and the result says so', async (_name, command) => {
  const session = await Session.at('chatting', db);
  await session.close();
  const before = await session.chat();
  expect(await command(session)).toMatchObject({ ok: false, closed: true });
  expect(await session.chat()).toEqual(before);
});

it('W8 a repeated command leaves a closed session closed, and the result says so', async () => {
  const session = await Session.at('verifying', db);
  const first = await session.raise('publish', 'publish:1');
  await session.close();
  expect(await session.raise('publish', 'publish:1')).toEqual({ ...first, closed: true });
  expect(await closed(session)).toBe(true);
});

it('W8 reading a closed session or repeating a message leaves it closed', async () => {
  const session = await Session.saying(db, 'one');
  await session.answer(1);
  await session.close();
  await session.load();
  expect(await session.say('one', { id: 'one' })).toMatchObject({ accepted: false });
  expect(await closed(session)).toBe(true);
});

it('W8 concurrent submit and close: either the close is refused or the session is open again', async () => {
  for (let round = 0; round < 50; round += 1) {
    const session = await Session.at('chatting', db);
    const [said, close] = await Promise.all([session.say('hello'), session.close()]);
    expect(said).toMatchObject({ ok: true, accepted: true });
    expect(close['ok'] === true || close['code'] === 'RunInFlight').toBe(true);
    expect(await closed(session)).toBe(false);
    expect(await session.claim(1, fence(1))).toMatchObject({ kind: 'claimed' });
  }
});
