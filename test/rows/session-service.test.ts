// One suite for both stores of SessionService, then what only Postgres has to show.
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  Event,
  InMemorySessionService,
  PostgresSessionService,
  type Session,
  type SessionService,
  State,
} from '../../client/state/index.ts';
import { newId } from '../../domain/ids.ts';
import type { Json } from '../../domain/text.ts';
import { appendStateEvent } from '../../store/state.ts';
import { randomIntegers } from '../../tools/test-kit/cases.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { replayState } from '../../tools/test-kit/replayed-state.ts';
import { freshRows, rows } from './session.ts';

const db = await freshRows({ max: 16 });
const postgres = new PostgresSessionService({ database: db });

/** A user and an app of their own for each test. */
const someone = (appName: string = newId('prj')) => ({ appName, userId: newId('cmd') });

const codeOf = (error: unknown) => (error as { code?: string }).code;

const reading = ({ appName, userId, id }: Session) => ({ appName, userId, sessionId: id });

async function read(service: SessionService, session: Session): Promise<Session> {
  return (await service.getSession(reading(session)))!;
}

const change = (stateDelta: Record<string, unknown>, more: object = {}) =>
  new Event({ invocationId: 'inv', author: 'system', actions: { stateDelta, ...more } });

describe.each([
  ['memory', new InMemorySessionService()],
  ['Postgres', postgres],
])('SessionService in %s', (_name, service) => {
  it('K5 a session is opened with its state, read, listed and deleted', async () => {
    const who = someone();
    const state = { 'user:login_count': 0, task_status: 'idle', 'app:motd': { text: 'hi' }, 'temp:x': 1 };
    const from = Date.now();
    const session = await service.createSession({ ...who, sessionId: 'session2', state });
    expect(session).toMatchObject({ ...who, id: 'session2', events: [] });
    expect(session.state.getAll()).toEqual({ 'user:login_count': 0, task_status: 'idle', 'app:motd': { text: 'hi' } });
    // Postgres has a clock of its own.
    expect(session.lastUpdateTime).toBeGreaterThan(from / 1_000 - 1);
    expect(session.lastUpdateTime).toBeLessThan(Date.now() / 1_000 + 1);
    await expect(service.createSession({ ...who, sessionId: 'session2' })).rejects.toMatchObject({
      code: 'SessionExists',
    });
    const other = await service.createSession(who);
    expect(other.id).toMatch(/^ses_/);
    expect(other.state.getAll()).toEqual({ 'user:login_count': 0, 'app:motd': { text: 'hi' } });
    const listed = await service.listSessions({ ...who, order: 'desc' });
    expect(listed.sessions.map(({ id }) => id)).toEqual([other.id, 'session2']);
    expect(listed).toMatchObject({ page: 1, limit: 2, totalItems: 2, totalPages: 1 });
    expect(await service.listSessions({ ...who, order: 'asc', limit: 1, page: 2 })).toMatchObject({
      ...{ page: 2, limit: 1, totalItems: 2, totalPages: 2 },
      sessions: [{ id: other.id, events: [] }],
    });
    for (let n = 0; n < 2; n += 1) await service.deleteSession(reading(session));
    expect(await service.getSession(reading(session))).toBeUndefined();
    expect((await read(service, other)).state.getAll()).toEqual({ 'user:login_count': 0, 'app:motd': { text: 'hi' } });
    expect((await service.createSession({ ...who, sessionId: 'session2' })).state.has('task_status')).toBe(false);
  });

  it('K3 an event changes state in its scopes, is kept, and advances lastUpdateTime', async () => {
    const who = someone();
    const session = await service.createSession({ ...who, state: { task_status: 'idle', gone: 1 } });
    const neighbour = await service.createSession(who);
    const stranger = await service.createSession(someone(who.appName));
    const foreign = await service.createSession({ ...who, appName: 'elsewhere' });
    const before = session.lastUpdateTime;
    const event = change(
      { task_status: 'active', 'user:theme': 'dark', 'app:motd': who.userId, 'temp:secret': 'x', 'other:key': 1 },
      { stateDeletions: ['gone', 'temp:secret2'], artifactDelta: { a: 1 } },
    );
    const content = { role: 'system', parts: [{ text: 'changed' }] };
    expect(await service.appendEvent({ session, event: Object.assign(event, { content }) })).toBe(event);
    expect(event.actions.stateDelta).not.toHaveProperty('temp:secret');
    const expected = { task_status: 'active', 'user:theme': 'dark', 'app:motd': who.userId, 'other:key': 1 };
    expect(session.state.getAll()).toEqual(expected);
    expect(session.lastUpdateTime).toBeGreaterThan(before);
    const again = await read(service, session);
    expect(again.state.getAll()).toEqual(expected);
    expect(again.lastUpdateTime).toBe(session.lastUpdateTime);
    expect(again.events).toMatchObject([
      {
        id: event.id,
        invocationId: 'inv',
        author: 'system',
        timestamp: event.timestamp,
        content,
        actions: { artifactDelta: { a: 1 } },
      },
    ]);
    expect((await read(service, neighbour)).state.getAll()).toEqual({ 'user:theme': 'dark', 'app:motd': who.userId });
    expect((await read(service, stranger)).state.getAll()).toEqual({ 'app:motd': who.userId });
    expect((await read(service, foreign)).state.getAll()).toEqual({});
  });

  it('K4 temp: leaves nothing behind, and a partial event is not stored', async () => {
    const session = await service.createSession({ ...someone(), state: { 'temp:a': 'canary-1' } });
    const partial = new Event({ partial: true, actions: { stateDelta: { a: 1 } } });
    expect(await service.appendEvent({ session, event: partial })).toBe(partial);
    await service.appendEvent({
      session,
      event: change({ 'temp:b': 'canary-2' }, { stateIncrements: { 'temp:n': 1 } }),
    });
    const stored = await read(service, session);
    expect(stored.state.getAll()).toEqual({});
    expect(JSON.stringify(stored.events)).not.toMatch(/canary|temp:/);
    expect(stored.events).toHaveLength(1);
  });

  it('K5 getSession reads the newest events, or those from a time on', async () => {
    const session = await service.createSession(someone());
    for (let n = 1; n <= 6; n += 1) {
      await service.appendEvent({
        session,
        event: new Event({ id: `e${n}`, timestamp: 100 + n, actions: { stateDelta: { n } } }),
      });
    }
    const events = async (config: object) =>
      (await service.getSession({ ...reading(session), config }))!.events.map(({ id }) => id);
    expect(await events({})).toEqual(['e1', 'e2', 'e3', 'e4', 'e5', 'e6']);
    expect(await events({ numRecentEvents: 2 })).toEqual(['e5', 'e6']);
    expect(await events({ afterTimestamp: 104 })).toEqual(['e4', 'e5', 'e6']);
    expect(await events({ afterTimestamp: 104.5 })).toEqual(['e5', 'e6']);
    expect(await events({ afterTimestamp: 103, numRecentEvents: 1 })).toEqual(['e6']);
    expect(await events({ afterTimestamp: 200 })).toEqual([]);
  });

  it('K3 a stale object that was read without the older events gets only those that came after it was read', async () => {
    const session = await service.createSession(someone());
    for (const id of ['a', 'b']) await service.appendEvent({ session, event: new Event({ id, timestamp: 100 }) });
    const stale = (await service.getSession({ ...reading(session), config: { afterTimestamp: 101 } }))!;
    expect(stale.events).toEqual([]);
    for (const id of ['c', 'd']) await service.appendEvent({ session, event: new Event({ id }) });
    for (const id of ['e', 'f']) await service.appendEvent({ session: stale, event: new Event({ id }) });
    expect(stale.events.map(({ id }) => id)).toEqual(['c', 'd', 'e', 'f']);
  });

  it('K3 an event that is sent again is applied once; another one with its id is refused', async () => {
    const session = await service.createSession(someone());
    const copy = await read(service, session);
    const event = () =>
      new Event({ id: 'once', timestamp: 5, actions: { stateIncrements: { 'user:n': 1 }, stateDelta: {} } });
    await service.appendEvent({ session, event: event() });
    await service.appendEvent({ session: copy, event: event() });
    await service.appendEvent({ session, event: event() });
    for (const each of [session, copy, await read(service, session)]) {
      expect(each.state.get('user:n')).toBe(1);
      expect(each.events.map(({ id }) => id)).toEqual(['once']);
    }
    const other = new Event({ id: 'once', timestamp: 5, actions: { stateDelta: { a: 1 } } });
    await expect(service.appendEvent({ session, event: other })).rejects.toMatchObject({ code: 'EventConflict' });
  });

  it('K3 a stale session object cannot overwrite what another writer changed, in any scope', async () => {
    const who = someone();
    const first = await service.createSession({ ...who, state: { n: 1, 'user:n': 1, 'app:n': 1, kept: 1 } });
    for (const name of ['n', 'user:n', 'app:n', 'new', 'user:new', 'toString', 'constructor']) {
      const stale = await read(service, first);
      const current = await read(service, first);
      await service.appendEvent({ session: current, event: change({ [name]: 2 }) });
      for (const actions of [
        { stateDelta: { kept: 2, [name]: 3 } },
        { stateDelta: { kept: 2 }, stateDeletions: [name] },
      ]) {
        const refused = service.appendEvent({ session: stale, event: new Event({ actions }) });
        await expect(refused).rejects.toMatchObject({
          code: 'StaleSession',
          message: expect.stringContaining(JSON.stringify(name)) as string,
        });
      }
      const after = await read(service, first);
      expect([after.state.get(name), after.state.get('kept')]).toEqual([2, 1]);
      await service.appendEvent({ session: after, event: change({ [name]: 4 }) });
      expect((await read(service, first)).state.get(name)).toBe(4);
    }
  });

  it('K3 a key that was deleted and set again is another key', async () => {
    const session = await service.createSession({ ...someone(), state: { 'user:n': 1 } });
    const stale = await read(service, session);
    await service.appendEvent({ session, event: change({}, { stateDeletions: ['user:n'] }) });
    await expect(service.appendEvent({ session: stale, event: change({ 'user:n': 9 }) })).rejects.toMatchObject({
      code: 'StaleSession',
    });
    await service.appendEvent({ session, event: change({ 'user:n': 1 }) });
    await expect(service.appendEvent({ session: stale, event: change({ 'user:n': 9 }) })).rejects.toMatchObject({
      code: 'StaleSession',
    });
  });

  it('K3 a stale session object that adds other keys is merged, and then has what it missed', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 1, gone: 1 } });
    const stale = await read(service, session);
    await service.appendEvent({
      session,
      event: Object.assign(change({ n: 2, 'user:a': 1 }, { stateDeletions: ['gone'] }), { id: 'a' }),
    });
    stale.state.set('temp:mine', 1);
    await service.appendEvent({ session: stale, event: Object.assign(change({ m: 1 }), { id: 'b' }) });
    expect(stale.state.getAll()).toEqual({ n: 2, m: 1, 'user:a': 1, 'temp:mine': 1 });
    expect(stale.events.map(({ id }) => id)).toEqual(['a', 'b']);
    await service.appendEvent({ session: stale, event: change({ n: 3, 'user:a': 2 }) });
    expect((await read(service, session)).state.getAll()).toEqual({ n: 3, m: 1, 'user:a': 2 });
  });

  it('K3 changes of an object that no event has carried yet survive a merge, and do not overwrite what it brings', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 1, gone: 1, 'user:visits': 1 } });
    const other = await read(service, session);
    session.state.increment('user:visits');
    session.state.update({ new: 1, n: 5 });
    session.state.delete('gone');
    const changes = { stateDelta: { new: 1, n: 5 }, stateIncrements: { 'user:visits': 1 }, stateDeletions: ['gone'] };
    await service.appendEvent({ session: other, event: change({ n: 2 }, { stateIncrements: { 'user:visits': 5 } }) });
    await service.appendEvent({ session, event: change({ unrelated: 1 }) });
    expect(session.state.changes()).toEqual(changes);
    expect(session.state.getAll()).toEqual({ n: 5, new: 1, 'user:visits': 7, unrelated: 1 });
    await expect(service.appendEvent({ session, event: new Event({ actions: changes }) })).rejects.toMatchObject({
      ...{ code: 'StaleSession', message: expect.stringContaining('"n"') as string },
    });
    expect(session.state.changes()).toEqual(changes);
    await service.appendEvent({ session, event: new Event({ actions: { ...changes, stateDelta: { new: 1 } } }) });
    expect(session.state.changes()).toEqual({ stateDelta: { n: 5 }, stateIncrements: {}, stateDeletions: [] });
    const stored = (await read(service, session)).state.getAll();
    expect(stored).toEqual({ n: 2, new: 1, 'user:visits': 7, unrelated: 1 });
  });

  it('K3 what changes in an object while its event is being stored is kept for the next one', async () => {
    const session = await service.createSession(someone());
    const append = async () => {
      const event = new Event({ actions: session.state.changes() });
      const appending = service.appendEvent({ session, event });
      session.state.increment('half', 0.2);
      session.state.set('n', 2);
      return appending;
    };
    session.state.increment('half', 0.1);
    session.state.set('n', 1);
    await append();
    const later = { stateDelta: { n: 2 }, stateIncrements: { half: 0.2 }, stateDeletions: [] };
    expect(session.state.changes()).toEqual(later);
    expect((await read(service, session)).state.getAll()).toEqual({ half: 0.1, n: 1 });
    await service.appendEvent({ session: await read(service, session), event: change({ n: 3 }) });
    await expect(append()).rejects.toMatchObject({ code: 'StaleSession' });
    expect(session.state.changes()).toEqual({ ...later, stateIncrements: { half: 0.2 + 0.2 } });
    expect(session.state.getAll()).toEqual({ half: 0.1 + 0.2 + 0.2, n: 2 });
  });

  it('K3 what changes in an object while its event is merged or refused is in the next event, under the right fence', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 0 } });
    const append = () => service.appendEvent({ session, event: new Event({ actions: session.state.changes() }) });
    const byAnother = async (delta: object) =>
      service.appendEvent({ session: await read(service, session), event: change({ ...delta }) });
    await byAnother({ other: 1 });
    session.state.set('n', 1);
    const merged = append();
    session.state.set('n', 2);
    await merged;
    expect(session.state.getAll()).toEqual({ n: 2, other: 1 });
    await append();
    expect((await read(service, session)).state.getAll()).toEqual({ n: 2, other: 1 });

    await byAnother({ n: 9 });
    session.state.update({ n: 3, sum: 5 });
    const refused = append();
    session.state.increment('sum');
    await expect(refused).rejects.toMatchObject({ code: 'StaleSession' });
    expect(session.state.changes()).toEqual({ stateDelta: { n: 3, sum: 6 }, stateIncrements: {}, stateDeletions: [] });
  });

  it('K3 events that are appended to one object at once are stored one after the other', async () => {
    const session = await service.createSession(someone());
    const ids = ['a', 'b', 'c', 'd'];
    await Promise.all(
      ids.map((id, n) => service.appendEvent({ session, event: Object.assign(change({ n }), { id }) })),
    );
    expect(session.events.map(({ id }) => id)).toEqual(ids);
    const stored = await read(service, session);
    expect(stored.events.map(({ id }) => id)).toEqual(ids);
    expect([session.state.get('n'), session.seen]).toEqual([3, stored.seen]);
  });

  it('K3 an event that waits for others of its object is fenced by what was read when it was appended', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 1, 'user:n': 1 } });
    const { seen: _seen, ...handmade } = await read(service, session);
    const copies = [
      await read(service, session),
      JSON.parse(JSON.stringify(await read(service, session))) as Session,
      handmade,
    ];
    const stored = { n: 2, 'user:n': 2 };
    await service.appendEvent({ session, event: change(stored) });
    for (const [index, copy] of copies.entries()) {
      const own = `own${index}`;
      const append = (delta: object) => service.appendEvent({ session: copy, event: change({ ...delta }) });
      const answers = await Promise.allSettled([
        append({ [own]: 1 }),
        append({ n: 3 }),
        append({ 'user:n': 3 }),
        append({ [own]: 2 }),
      ]);
      expect(answers.map((each) => each.status === 'rejected' && codeOf(each.reason))).toEqual([
        false,
        'StaleSession',
        'StaleSession',
        false,
      ]);
      expect((await read(service, session)).state.getAll()).toMatchObject({ ...stored, [own]: 2 });
    }
  });

  it('K3 what an object changed after its event was made is kept, also while several events wait', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 0 } });
    const { state } = session;
    const made = () => new Event({ actions: session.state.changes() });
    const append = (event: Event) => service.appendEvent({ session, event });
    state.increment('visits', 2);
    state.set('n', 1);
    state.set('same', { a: 1 });
    const early = made();
    state.increment('visits', -1);
    state.set('n', 2);
    await append(early);
    expect(state.changes()).toEqual({ stateDelta: { n: 2 }, stateIncrements: { visits: -1 }, stateDeletions: [] });
    expect(state.getAll()).toEqual({ visits: 1, n: 2, same: { a: 1 } });
    const first = append(made());
    state.increment('visits', 5);
    state.set('n', 3);
    const second = append(made());
    await first;
    expect(state.getAll()).toMatchObject({ visits: 6, n: 3 });
    await second;
    expect(state.hasDelta()).toBe(false);
    expect((await read(service, session)).state.getAll()).toEqual(state.getAll());

    await service.appendEvent({ session: await read(service, session), event: change({ other: 1 }) });
    state.update({ n: 4, other: 2, sum: 5 });
    const refused = append(made()).catch(codeOf);
    state.set('n', 5);
    state.increment('sum');
    state.increment('visits');
    const last = append(made());
    expect(await refused).toBe('StaleSession');
    await last;
    expect(state.changes()).toEqual({ stateDelta: { other: 2, sum: 6 }, stateIncrements: {}, stateDeletions: [] });
    expect(state.getAll()).toMatchObject({ n: 5, other: 2, sum: 6, visits: 7 });
    expect((await read(service, session)).state.getAll()).toMatchObject({ n: 5, other: 1, sum: 1, visits: 7 });
  });

  it('K3 copies, also through JSON, keep the fence', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 1, 'user:n': 1 } });
    const copies = [
      (each: Session) => ({ ...each }),
      (each: Session) => JSON.parse(JSON.stringify(each)) as Session,
      // As lodash's cloneDeep does it.
      (each: Session) => ({ ...structuredClone({ ...each, state: null }), state: deepCopy(each.state) }),
    ];
    for (const copyOf of copies) {
      const copy = copyOf(await read(service, session));
      const stale = copyOf(await read(service, session));
      for (const n of [2, 3]) {
        await service.appendEvent({ session: copy, event: change({ n, 'user:n': n }, { stateDeletions: ['none'] }) });
      }
      for (const name of ['n', 'user:n']) {
        await expect(service.appendEvent({ session: stale, event: change({ [name]: 4 }) })).rejects.toMatchObject({
          code: 'StaleSession',
        });
      }
      await service.appendEvent({ session: stale, event: change({ added: 1 }) });
      expect(stale.events).toHaveLength(copy.events.length + 1);
      expect(Object.fromEntries(Object.entries(stale.state))).toEqual({ n: 3, 'user:n': 3, added: 1 });
      await service.appendEvent({ session: stale, event: change({}, { stateDeletions: ['added'] }) });
    }
  });

  it('K3 an object that knows no versions has a coarser fence, and loses no update either', async () => {
    const session = await service.createSession({ ...someone(), state: { n: 1, 'user:n': 1 } });
    const handmade = async () => {
      const { seen: _seen, state, ...rest } = await read(service, session);
      return { ...rest, state: state.getAll() };
    };
    const current = await handmade();
    await service.appendEvent({ session: current, event: change({ 'user:first': 1 }) });
    await service.appendEvent({ session: current, event: change({ n: 3 }) });
    expect(current.state).toEqual({ n: 3, 'user:n': 1, 'user:first': 1 });
    const shared = service.appendEvent({ session: await handmade(), event: change({ 'user:n': 2 }) });
    await expect(shared).rejects.toMatchObject({
      code: 'StaleSession',
      message:
        'the key "user:n" was changed since the session was read: read it again with its version: other sessions change it, too',
    });
    const stale = await handmade();
    await service.appendEvent({ session: await read(service, session), event: change({ other: 1 }) });
    for (const delta of [{ n: 4 }, { 'user:n': 4 }]) {
      await expect(service.appendEvent({ session: { ...stale }, event: change(delta) })).rejects.toMatchObject({
        code: 'StaleSession',
      });
    }
    await service.appendEvent({ session: stale, event: change({ added: 1 }) });
    expect(stale.state).toMatchObject({ n: 3, other: 1, added: 1 });
  });

  it('K3 increments are exact, whatever the session object knows', async () => {
    const session = await service.createSession({
      ...someone(),
      state: { 'user:text': 'x', 'user:big': 1e308, nothing: null },
    });
    const stale = await read(service, session);
    for (const each of [session, stale, session, stale]) {
      each.state.increment('user:visits');
      each.state.increment('half', 0.1);
      await service.appendEvent({ session: each, event: new Event({ author: 'a', actions: each.state.changes() }) });
      expect(each.state.hasDelta()).toBe(false);
    }
    const after = await read(service, session);
    expect(after.state.get('user:visits')).toBe(4);
    expect(after.state.get('half')).toBe(0.1 + 0.1 + 0.1 + 0.1);
    expect(after.events.map(({ actions }) => actions.stateDelta['user:visits'])).toEqual([1, 2, 3, 4]);
    const adding = (name: string, by: number) =>
      service.appendEvent({ session: after, event: change({ half: 0 }, { stateIncrements: { [name]: by } }) });
    for (const name of ['user:text', 'nothing']) {
      await expect(adding(name, 1)).rejects.toMatchObject({ code: 'BadRequest', field: `stateIncrements["${name}"]` });
    }
    await expect(adding('user:big', 1e308)).rejects.toMatchObject({ code: 'BadRequest', field: 'stateIncrements' });
    expect((await read(service, session)).state.get('half')).toBeGreaterThan(0);
  });

  it('K1 what is refused is named, and nothing of it is applied', async () => {
    const session = await service.createSession({ ...someone(), state: { a: 1 } });
    const large = 'x'.repeat(60_000);
    const cases: [object, object][] = [
      [
        { a: 2, b: { c: [Number.NaN] } },
        { code: 'BadRequest', field: 'stateDelta["b"].c[0]' },
      ],
      [
        { a: 2, '': 1 },
        { code: 'BadRequest', field: 'stateDelta[""]' },
      ],
      [
        { a: 2, b: 'x'.repeat(65_536) },
        { code: 'TooLarge', field: 'stateDelta["b"]' },
      ],
      [
        { a: 2, b: large, c: large, 'user:b': large, 'user:c': large, 'app:b': large },
        { code: 'TooLarge', field: 'stateDelta' },
      ],
    ];
    for (const [delta, error] of cases) {
      await expect(service.appendEvent({ session, event: change(delta as never) })).rejects.toMatchObject(error);
    }
    for (let n = 0; n < 4; n += 1) await service.appendEvent({ session, event: change({ [`user:${n}`]: large }) });
    await expect(service.appendEvent({ session, event: change({ a: 2, 'user:4': large }) })).rejects.toMatchObject({
      code: 'TooLarge',
      message: expect.stringContaining('the scope "user"') as string,
    });
    const content = { parts: [{ text: 'x'.repeat(1024 ** 2) }] };
    await expect(service.appendEvent({ session, event: new Event({ content }) })).rejects.toMatchObject({
      code: 'TooLarge',
      field: 'event',
    });
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    await expect(service.appendEvent({ session, event: new Event({ content: cyclic }) })).rejects.toMatchObject({
      field: 'event',
    });
    const named = Object.assign(change({ a: 2 }), { id: 'x'.repeat(129) });
    await expect(service.appendEvent({ session, event: named })).rejects.toMatchObject({
      ...{ code: 'BadRequest', field: 'event.id' },
    });
    for (const timestamp of ['2026-01-01', new Date(0), Number.NaN]) {
      const event = Object.assign(change({ a: 2 }), { timestamp });
      await expect(service.appendEvent({ session, event })).rejects.toMatchObject({
        ...{ code: 'BadRequest', field: 'event.timestamp' },
      });
      const config = { afterTimestamp: timestamp as number };
      await expect(service.getSession({ ...reading(session), config })).rejects.toMatchObject({
        ...{ code: 'BadRequest', field: 'config.afterTimestamp' },
      });
    }
    const after = await read(service, session);
    expect([after.state.get('a'), after.events.length]).toEqual([1, 4]);
    for (const [request, field] of [
      [{ appName: '' }, 'appName'],
      [{ userId: 'x'.repeat(129) }, 'userId'],
      [{ sessionId: 'ses_mine' }, 'sessionId'],
      [{ sessionId: 'a\nb' }, 'sessionId'],
      [{ state: { a: 1n } }, 'stateDelta["a"]'],
    ] as const) {
      await expect(service.createSession({ ...someone(), ...request })).rejects.toMatchObject({
        code: 'BadRequest',
        field,
      });
    }
  });

  it('K5 another user or app has no such session', async () => {
    const session = await service.createSession({ ...someone(), sessionId: 'mine' });
    for (const wrong of [
      { appName: 'other' },
      { userId: 'other' },
      { id: 'other' },
      { id: newId('ses') },
      { userId: '' },
      { id: 'a\0' },
    ]) {
      const there = { ...session, ...wrong } as Session;
      expect(await service.getSession(reading(there))).toBeUndefined();
      await expect(service.appendEvent({ session: there, event: change({ a: 1 }) })).rejects.toMatchObject({
        code: 'SessionNotFound',
      });
      await service.deleteSession(reading(there));
    }
    expect((await read(service, session)).state.getAll()).toEqual({});
  });

  it('K5 only without a user the sessions of all are listed: an empty one is refused', async () => {
    const one = someone();
    const two = someone(one.appName);
    for (const who of [one, two]) await service.createSession(who);
    expect(await service.listSessions({ appName: one.appName })).toMatchObject({ totalItems: 2 });
    expect(await service.listSessions(two)).toMatchObject({ totalItems: 1, sessions: [two] });
    await expect(service.listSessions({ appName: one.appName, userId: '' })).rejects.toMatchObject({
      ...{ code: 'BadRequest', field: 'userId' },
    });
  });
});

const deepCopy = (state: State): State =>
  Object.assign(Object.create(Object.getPrototypeOf(state) as object) as State, state);

it('K2 a deep copy of a State has the values as properties, and its methods say so', () => {
  const copy = deepCopy(new State({ a: 1 }));
  expect(copy['a']).toBe(1);
  expect(() => copy.get('a')).toThrow('a deep copy of a State is a plain object: its values are properties');
});

it('K1 whatever writers may store is loaded, also where Postgres needs more space for it than JSON', async () => {
  const who = someone();
  const session = await postgres.createSession(who);
  const words = Array.from({ length: 2_800 }, () => newId('cmd').slice(-20));
  const stateDelta = { words };
  await postgres.appendEvent({ session, event: change(stateDelta) });
  const [size] = await rows(db, `SELECT pg_column_size(value) AS bytes FROM scoped_state WHERE owner = $1`, [
    session.id,
  ]);
  expect(size!['bytes']).toBeGreaterThan(64 * 1024);
  expect((await read(postgres, session)).state.getAll()).toEqual(stateDelta);
});

it('K5 changes that a tool made before events had versions are read as its event', async () => {
  const session = await postgres.createSession(someone());
  const delta = [
    { scope: 'session', key: 'paid', value: 5 },
    { scope: 'user', key: 'draft' },
  ];
  await rows(db, `SELECT append_event($1, 'state', 'tool', $2, NULL)`, [session.id, JSON.stringify({ delta })]);
  expect((await read(postgres, session)).events).toMatchObject([
    { author: 'tool', actions: { stateDelta: { paid: 5 }, stateDeletions: ['user:draft'] } },
  ]);
});

it('K3 a writer that has missed events gets as many of them as it asks for', async () => {
  const who = someone();
  const session = await postgres.createSession(who);
  for (const n of [1, 2, 3]) await postgres.appendEvent({ session, event: change({ n }) });
  const key = { app: who.appName, user: who.userId, id: session.id };
  const append = (id: string, recent?: number) => {
    const seen = { at: 0, seq: 0, versions: false, ...(recent !== undefined && { recent }) };
    return appendStateEvent(db, key, { event: { id, timestamp: 1 }, changes: [], actor: 'user' }, seen);
  };
  for (const recent of [0, 2]) {
    const id = newId('evt');
    for (let times = 0; times < 2; times += 1) expect((await append(id, recent)).fresh!.events).toHaveLength(recent);
  }
  expect((await append(newId('evt'))).fresh!.events).toHaveLength(6);
});

it('K5 a hundred sessions of a user over 16 connections lose no update of user: and app: keys, and counters are exact', async () => {
  const who = someone('busy');
  const sessions = await Promise.all(Array.from({ length: 100 }, () => postgres.createSession(who)));
  await Promise.all(
    sessions.map(async (session, n) => {
      for (let round = 0; round < 3; round += 1) {
        const event = change(
          { [`user:mine-${n}`]: round, [`app:mine-${n}`]: round, last: round },
          { stateIncrements: { 'user:all': 1, 'app:all': 2 } },
        );
        await postgres.appendEvent({ session, event });
      }
    }),
  );
  const { state } = await read(postgres, sessions[0]!);
  const expected = Object.fromEntries(
    sessions.flatMap((_, n) => [
      [`user:mine-${n}`, 2],
      [`app:mine-${n}`, 2],
    ]),
  );
  expect(state.getAll()).toEqual({ ...expected, 'user:all': 300, 'app:all': 600, last: 2 });
  // The same key, read and then written: every writer that is not refused has seen the one before.
  const counted = await Promise.all(
    sessions.slice(0, 16).map(async (session) => {
      let done = 0;
      while (done < 3) {
        const current = await read(postgres, session);
        const n = current.state.get('user:cas', 0) + 1;
        const error = await postgres
          .appendEvent({ session: current, event: change({ 'user:cas': n }) })
          .then(() => null, codeOf);
        if (error === null) done += 1;
        else expect(error).toBe('StaleSession');
      }
      return done;
    }),
  );
  expect((await read(postgres, sessions[0]!)).state.get('user:cas')).toBe(counted.reduce((sum, n) => sum + n, 0));
  await expectReplay(who.appName, who.userId);
});

it('K3 deleting a key that another writer is about to add leaves no deletion in the log', async () => {
  const who = someone('deleting');
  const [adding, deleting] = [await postgres.createSession(who), await postgres.createSession(who)];
  const client = await db.connect();
  onTestFinished(() => client.release(true));
  await client.query('BEGIN');
  await client.query(`SELECT append_state_event('deleting', $1, $2, '{"id": "add"}', $3, NULL, 'user')`, [
    who.userId,
    adding.id,
    JSON.stringify(['user', 'app'].map((scope) => ({ scope, key: 'a', value: 1, bytes: 7 }))),
  ]);
  const object = { ...deleting, state: { 'user:a': 'not stored' } };
  await postgres.appendEvent({
    session: object,
    event: change({}, { stateDeletions: ['user:a', 'app:a'], stateIncrements: { 'user:n': 1 } }),
  });
  expect(object.state).toEqual({ 'user:n': 1 });
  await client.query('COMMIT');
  expect((await read(postgres, deleting)).state.getAll()).toEqual({ 'user:a': 1, 'app:a': 1, 'user:n': 1 });
  await expectReplay(who.appName, who.userId);
});

it('K1 writers at the same time do not fill a scope together beyond its limit; those who add little do not wait', async () => {
  const who = someone('filling');
  const sessions = await Promise.all(Array.from({ length: 16 }, () => postgres.createSession(who)));
  const [holding, large, small] = sessions as [Session, Session, Session];
  const client = await db.connect();
  onTestFinished(() => client.release(true));
  const isWaiting = async () => {
    const here = `(SELECT oid FROM pg_database WHERE datname = current_database())`;
    const sql = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = ${here} AND NOT granted`;
    return (await rows(db, sql)).length > 0;
  };
  const some = (name: string, count: number, size: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`user:${name}-${n}`, 'x'.repeat(size)]));
  const adding = (session: Session, delta: Record<string, string>) =>
    postgres.appendEvent({ session, event: change(delta) }).then(() => 'stored', codeOf);
  const hold = async (key: string, size: number) => {
    const changes = [{ scope: 'user', key, value: 'x'.repeat(size), bytes: size + 20 }];
    await client.query('BEGIN');
    await client.query(`SELECT append_state_event('filling', $1, $2, $3, $4, NULL, 'user')`, [
      ...[who.userId, holding.id, JSON.stringify({ id: key }), JSON.stringify(changes)],
    ]);
  };

  await hold('held-small', 10);
  expect(await adding(small, some('small', 1, 10))).toBe('stored');
  const behind = { answer: undefined as string | undefined };
  const all = adding(large, some('large', 2, 60_000)).then((answer) => (behind.answer = answer));
  await eventually(async () => expect(behind.answer !== undefined || (await isWaiting())).toBe(true));
  expect(behind.answer).toBeUndefined();
  await client.query('COMMIT');
  expect(await all).toBe('stored');

  // Each of these is small, and the scope is more than half full: none may wait for another that waits for it.
  expect(await adding(large, some('larger', 1, 60_000))).toBe('stored');
  const answers = await Promise.all(
    sessions.map(async (session, n) => {
      for (let round = 0; ; round += 1) {
        const answer = await adding(session, some(`more-${n}-${round}`, 1, 400));
        if (answer !== 'stored') return answer;
      }
    }),
  );
  expect(answers).toEqual(sessions.map(() => 'TooLarge'));
  const [stored] = await rows(
    db,
    `SELECT count(*)::int AS keys, sum(bytes)::int AS bytes FROM scoped_state WHERE app = 'filling' AND scope = 'user'`,
  );
  expect(stored!['bytes']).toBeGreaterThan(256 * 1024 - 1_000);
  expect(stored!['bytes']).toBeLessThanOrEqual(256 * 1024);
  expect(Object.keys((await read(postgres, small)).state.getAll())).toHaveLength(stored!['keys'] as number);
});

/** Replays all events of an app's user, including those of deleted sessions, and compares with the stored state. */
async function expectReplay(app: string, user: string): Promise<void> {
  const events = await rows(
    db,
    `SELECT e.session_id, e.data -> 'set' AS set, e.data -> 'deleted' AS deleted, (e.data ->> 'version')::bigint AS version
       FROM session_events e JOIN chat_sessions c USING (session_id) JOIN sessions s USING (session_id)
      WHERE c.app = $1 AND s.user_id = $2 AND e.kind = 'state'
     UNION ALL SELECT NULL, data -> 'set', data -> 'deleted', version FROM scope_events WHERE app = $1 ORDER BY version`,
    [app, user],
  );
  const stored = await rows(
    db,
    `SELECT scope, owner, key, value FROM scoped_state WHERE app = $1 AND (scope = 'app' OR owner = $2)`,
    [app, user],
  );
  const shared = replayState(events as never);
  expect(new Map([...shared].filter(([name]) => /^(?:user|app):/.test(name)))).toEqual(
    new Map(stored.map(({ scope, key, value }) => [`${String(scope)}:${String(key)}`, value as Json])),
  );
  for (const [session, own] of Map.groupBy(events, (event) => event['session_id'])) {
    if (session === null) continue;
    const values = await rows(db, `SELECT key, value FROM scoped_state WHERE scope = 'session' AND owner = $1`, [
      session,
    ]);
    const mine = [...replayState(own as never)].filter(([name]) => !/^(?:user|app):/.test(name));
    expect(new Map(mine)).toEqual(new Map(values.map(({ key, value }) => [String(key), value as Json])));
  }
}

it('K3 replaying the events gives the state, also where writers raced and sessions were deleted', async () => {
  const who = someone('audited');
  const random = randomIntegers('writers');
  const names = ['a', 'b', 'user:a', 'user:b', 'app:a', 'app:b'];
  const some = () => names.filter(() => random(3) === 0);
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      let session = await postgres.createSession({ ...who, state: { a: writer, 'user:b': writer } });
      for (let n = 0; n < 25; n += 1) {
        const stateDelta = Object.fromEntries(some().map((name) => [name, { writer, n }]));
        const stateDeletions = some().filter((name) => !(name in stateDelta));
        const event = new Event({
          author: `writer ${writer}`,
          actions: { stateDelta, stateDeletions, stateIncrements: { 'user:n': 1, n: 1 } },
        });
        await postgres.appendEvent({ session, event }).catch(async (error: unknown) => {
          expect(codeOf(error)).toBe('StaleSession');
          session = await read(postgres, session);
        });
        if (random(12) === 0) {
          await postgres.deleteSession(reading(session));
          session = await postgres.createSession(who);
        }
      }
    }),
  );
  const [kept] = await rows(db, `SELECT count(*)::int AS n FROM scope_events WHERE app = 'audited'`);
  expect(kept!['n']).toBeGreaterThan(0);
  await expectReplay(who.appName, who.userId);
  await db.query('SELECT erase_user_rest($1, $2)', [who.userId, 'home']);
  expect(
    await rows(db, `SELECT FROM scope_events WHERE app = $1 AND data::text LIKE '%user:%'`, [who.appName]),
  ).toEqual([]);
});

it('K5 random operations do the same in memory and in Postgres', async () => {
  const services = [new InMemorySessionService(), postgres] as const;
  const random = randomIntegers('operations');
  const value = () => [1, 'x', null, true, { a: [1.5, { b: '' }] }, [], 0][random(7)];
  const names = ['a', 'b', 'user:a', 'app:a', 'temp:a', 'x:a'];
  for (let round = 0; round < 12; round += 1) {
    const who = someone(`random-${newId('cmd')}`);
    const held = services.map(() => new Map<string, Session>());
    const both = (work: (service: SessionService, sessions: Map<string, Session>) => Promise<unknown>) =>
      Promise.all(
        services.map((service, index) =>
          work(service, held[index]!).catch((error: unknown) => ({ refused: codeOf(error) })),
        ),
      );
    const shown = (session: Session | undefined) =>
      session && {
        state: session.state.getAll(),
        events: session.events.map(({ id, actions }) => [id, actions.stateDelta]),
      };
    for (let n = 0; n < 40; n += 1) {
      const sessionId = `s${random(3)}`;
      const delta = Object.fromEntries(names.filter(() => random(3) === 0).map((name) => [name, value()]));
      const setting = {
        stateDelta: delta,
        stateDeletions: names.filter((name) => !(name in delta) && random(4) === 0),
      };
      const id = `e${random(60)}`;
      const operation = random(7);
      // Alone: of several reasons to refuse an event, either may be the one that is told.
      const adding = { stateIncrements: Object.fromEntries(names.slice(0, random(7)).map((name) => [name, 1 + n])) };
      const actions = operation === 6 ? adding : setting;
      const isDeleted = random(3) === 0;
      const [memory, stored] = await both(async (service, sessions) => {
        if (operation === 0) {
          const session = await service.createSession({ ...who, sessionId, state: delta });
          sessions.set(sessionId, session);
          return shown(session);
        }
        if (operation === 1 && isDeleted) return service.deleteSession({ ...who, sessionId }).then(() => 'deleted');
        if (operation <= 2) {
          const session = await service.getSession({ ...who, sessionId, config: { numRecentEvents: n % 4 } });
          if (session && n % 2 === 0) sessions.set(sessionId, session);
          return shown(session);
        }
        const session = sessions.get(sessionId);
        if (session === undefined) return 'none';
        await service.appendEvent({ session, event: new Event({ id, timestamp: 1, actions }) });
        return shown(session);
      });
      expect(stored).toEqual(memory);
    }
  }
});
