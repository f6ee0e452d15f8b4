import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Phase } from '../../domain/phases.ts';
import { argumentsDigest } from '../../store/arguments-digest.ts';
import { call, type Answer, freshRows, Session } from './session.ts';

const db = await freshRows();

const REFUSED = { name: 'rewind', code: 'NotSupported' };

interface Command {
  name: string;
  /** The phases in which it is carried out and refused. */
  at: Phase;
  refusedAt?: Phase;
  send(session: Session, id: string): Promise<Answer>;
}

const COMMANDS: Command[] = [
  { name: 'publish', at: 'verifying', refusedAt: 'done', send: (session, id) => session.raise('publish', id) },
  { name: 'revert', at: 'verifying', refusedAt: 'chatting', send: (session, id) => session.raise('revert', id) },
  { name: 'open', at: 'chatting', refusedAt: 'building', send: (session, id) => session.openExisting('prj-1', id) },
  { name: 'cancel', at: 'building', refusedAt: 'done', send: (session, id) => session.cancel(id) },
  { name: 'abort', at: 'chatting', send: (session, id) => session.abort(id) },
  { name: 'close', at: 'chatting', send: (session, id) => session.close(false, id) },
  {
    name: 'a refusal by the workflow',
    at: 'chatting',
    send: (session, id) => session.apply('refuse', REFUSED, id, 'operator'),
  },
  { name: 'cancel of a queued message', at: 'chatting', send: (session, id) => session.cancelQueued('msg-1', id) },
];

const CASES = COMMANDS.flatMap(({ name, at, refusedAt, send }) => [
  { name, at, send },
  ...(refusedAt ? [{ name: `${name}, refused`, at: refusedAt, send }] : []),
]);

describe.each(CASES)('$name', ({ name, at, send }) => {
  it(`S9 ${name} repeated under its id gets the same result, and is carried out once`, async () => {
    const session = await Session.at(at, db);
    const before = (await session.events()).length;
    const id = newId('cmd');
    const first = await send(session, id);
    const after = await session.everything();
    expect(await send(session, id)).toEqual(first);
    expect(await session.everything()).toEqual(after);
    expect(await session.events()).toHaveLength(before + 1);
    expect(first['event_seq']).toBe(before + 1);
  });

  it(`S9 ${name} repeated after the session has continued still gets its first result`, async () => {
    const session = await Session.at(at, db);
    const id = newId('cmd');
    const first = await send(session, id);
    await session.say('go on');
    await session.raise('start_build');
    const after = await session.everything();
    // The repeat of a close only adds that the session has been opened since.
    expect(await send(session, id)).toEqual(name === 'close' ? { ...first, closed: false } : first);
    expect(await session.everything()).toEqual(after);
  });

  it(`S9 ${name} sent five times at once is carried out once`, async () => {
    const session = await Session.at(at, db);
    const before = (await session.events()).length;
    const id = newId('cmd');
    const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => send(session, id)));
    for (const other of others) expect(other).toEqual(first);
    expect(await session.events()).toHaveLength(before + 1);
  });
});

/** A command as a worker sends it: with the digest of its arguments. */
function sent(session: Session, name: string, args: object, id: string): Promise<Answer> {
  return session.apply(name, args, id, 'user', argumentsDigest(args));
}
const REUSED = { ok: false, code: 'KeyReused' };

it('H2 a command id with other arguments is refused and changes nothing, also of a closed session', async () => {
  const session = await Session.saying(db, 'one', 'two', 'three');
  const first = await sent(session, 'cancel_queued', { message_id: 'two' }, 'cancelQueued:1');
  expect(first).toMatchObject({ ok: true });
  const after = await session.everything();
  expect(await sent(session, 'cancel_queued', { message_id: 'three' }, 'cancelQueued:1')).toEqual(REUSED);
  expect(await sent(session, 'cancel_queued', { message_id: 'two' }, 'cancelQueued:1')).toEqual(first);
  expect(await session.everything()).toEqual(after);
  const closed = await sent(session, 'close', { abort: true }, 'close:1');
  expect(await sent(session, 'close', { abort: false }, 'close:1')).toEqual({ ...REUSED, closed: true });
  expect(await sent(session, 'close', { abort: true }, 'close:1')).toEqual(closed);
});

it('H2 the reason of a command is the first one: another, none, or one that comes later is refused', async () => {
  const session = await Session.at('building', db);
  const log = (id: number, reason: string | null) =>
    call<number | null>(db, 'log_reason', [session.id, 'user', reason, `cancel:${id}/reason`]);
  const seq = await log(1, 'enough');
  const reused = null;
  expect([await log(1, 'enough'), await log(1, 'a whim'), await log(1, null)]).toEqual([seq, reused, reused]);
  expect(await log(2, null)).toBe(0);
  await sent(session, 'cancel', {}, 'cancel:2');
  const before = await session.events();
  expect([await log(2, null), await log(2, 'enough')]).toEqual([0, reused]);
  expect(await session.events()).toEqual(before);
});

it('W8 a repeated close does not reopen the session', async () => {
  const session = await Session.at('chatting', db);
  const first = await session.close(false, 'close:1');
  expect(await session.close(false, 'close:1')).toEqual(first);
  expect((await session.chat())['closed_at']).not.toBeNull();
});

it('W8 the recorded result of a close says that the session has been opened since', async () => {
  const session = await Session.at('chatting', db);
  const first = await session.close(false, 'close:1');
  expect(first).not.toHaveProperty('closed');
  await session.say('hello again');
  expect(await session.close(false, 'close:1')).toEqual({ ...first, closed: false });
});

it('W2 the event of a command references the event with its reason', async () => {
  const session = await Session.at('building', db);
  const reason = await call<number>(db, 'log_reason', [session.id, 'user', 'enough', 'cancel:1/reason']);
  await session.cancel('cancel:1');
  await session.abort('abort:1');
  const [cancelled, aborted] = (await session.events()).slice(-2);
  expect(cancelled!.data).toMatchObject({ event: 'cancel', reason_seq: reason });
  expect(aborted!.data).not.toHaveProperty('reason_seq');
});

it('U2 claiming a settled step returns what was settled, and the run continues from there', async () => {
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(['call_1'], [1, 1, 1]);
  const stored = await session.everything();
  for (const fence of [
    [1, 1, 1],
    [1, 1, 2],
    [2, 1, 1],
  ] as const) {
    expect(await session.claim(run, fence)).toMatchObject({
      kind: 'settled',
      state: 'running',
      tool_calls: [{ tool_call_id: 'call_1', name: 'build_and_deploy' }],
    });
  }
  expect(await session.everything()).toEqual(stored);
});

it('S6 commands to an unknown session are refused and write nothing', async () => {
  const nobody = new Session(db);
  for (const { send } of COMMANDS) {
    expect(await send(nobody, newId('cmd'))).toEqual({ ok: false, code: 'SessionNotFound' });
  }
  expect(await nobody.say('hello')).toEqual({ ok: false, code: 'SessionNotFound' });
  expect(await call(db, 'load_session', [nobody.id, 'an execution', 1, 1, ''])).toBeNull();
  expect(await nobody.events()).toEqual([]);
});
