import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Bus } from '../../bus/bus.ts';
import { Rendezvous } from '../../client/rendezvous/rendezvous.ts';
import { newId } from '../../domain/ids.ts';
import { type RendezvousEvent, titleOf } from '../../domain/rendezvous.ts';
import { rulesInForce } from '../../store/permissions.ts';
import { newestOpen } from '../../store/rendezvous.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { answer, asks, STEP, TOOL } from '../rows/asking.ts';
import { childOf, parentAndChild, withCall } from '../rows/family.ts';
import { Session } from '../rows/session.ts';

// The cost of a rendezvous, and which changes its polls find. The rows are real; the test publishes the pointers.

let db: pg.Pool;
let queries = 0;
beforeAll(async () => {
  db = patientPool(await freshDatabase());
  db.on('acquire', () => void queries++);
});
afterAll(() => db.end());

let bus: Bus;
const open: { meeting: Rendezvous; gone: AbortController; reading: Promise<unknown>[] }[] = [];
beforeEach(() => {
  bus = createMemoryBus();
  return async () => {
    for (const { meeting, gone, reading } of open.splice(0)) {
      gone.abort();
      meeting.close();
      await Promise.all(reading);
    }
    await bus.close();
  };
});

function meetingOf(checkMs = 60_000): Rendezvous {
  const meeting = new Rendezvous({ db, bus, log: { warn: () => {} }, checkMs });
  open.push({ meeting, gone: new AbortController(), reading: [] });
  return meeting;
}

/** The events of a new reader. */
function readerOf(meeting: Rendezvous, user: string): RendezvousEvent[] {
  const received: RendezvousEvent[] = [];
  const { gone, reading } = open.find((each) => each.meeting === meeting)!;
  const read = async () => {
    for await (const events of meeting.follow(user, { signal: gone.signal })) received.push(...events);
  };
  reading.push(read());
  return received;
}

const untilReady = (received: RendezvousEvent[]) =>
  eventually(() => expect(received).toContainEqual({ event: 'ready' }));

async function openSession(user: string): Promise<string> {
  const id = newId('ses');
  await db.query(`SELECT open_session($1, $2, 'site-builder', NULL, NULL, '{}', NULL)`, [id, user]);
  return id;
}

async function closeSession(id: string): Promise<void> {
  await db.query(`SELECT apply_command($1, 'close', '{}', 'user', $2)`, [id, newId('cmd')]);
}

/** Sessions that were opened just now count as changed. */
async function age(user: string, sessions: readonly string[]): Promise<void> {
  const longAgo = "updated_at = updated_at - interval '1 hour'";
  const client = await db.connect();
  await client.query('BEGIN');
  // Without the triggers, which allow no writes but those of the functions.
  await client.query('SET LOCAL session_replication_role = replica');
  await client.query(`UPDATE sessions SET ${longAgo} WHERE user_id = $1`, [user]);
  await client.query(`UPDATE chat_sessions SET ${longAgo} WHERE session_id = ANY($1)`, [sessions]);
  await client.query(`UPDATE chat_runs SET ${longAgo} WHERE session_id = ANY($1)`, [sessions]);
  await client.query('COMMIT');
  client.release();
}

function publish(session: string): void {
  bus.publish({ session, kind: 'status' });
}

let users = 0;
const newUser = () => `user ${++users}`;

it('S6 reads a changed session once for all tabs of its user, and not once per pointer', async () => {
  const user = newUser();
  const [session, last] = [await openSession(user), await openSession(user)];
  const meeting = meetingOf();
  const tabs = Array.from({ length: 30 }, () => readerOf(meeting, user));
  await Promise.all(tabs.map(untilReady));
  const [before, from] = [queries, performance.now()];
  for (let at = 0; at < 500; at++) {
    publish(session);
    if (at % 25 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await db.query('SELECT write_phase($1, $2)', [last, 'start_build']);
  publish(last);
  for (const received of tabs) {
    await eventually(() =>
      expect(received.at(-1)).toMatchObject({ event: 'session_update', session_id: last, phase: 'building' }),
    );
  }
  // The owner's id, at most twice; the write; and one read in 200 ms.
  expect(queries - before).toBeLessThanOrEqual(5 + Math.ceil((performance.now() - from) / 200));
});

it('S6 reads nothing without readers, and nothing for other users', async () => {
  const [user, other] = [newUser(), newUser()];
  const [own, others] = [await openSession(user), await openSession(other)];
  const meeting = meetingOf();
  const before = queries;
  for (const session of [own, others]) publish(session);
  await new Promise((resolve) => setImmediate(resolve));
  expect(queries).toBe(before);
  const received = readerOf(meeting, user);
  await untilReady(received);
  const ready = queries;
  publish(others);
  await eventually(() => expect([queries, db.idleCount]).toEqual([ready + 1, db.totalCount]));
  for (let at = 0; at < 100; at++) publish(others);
  publish(await openSession(user));
  await eventually(() => expect(received).toHaveLength(3));
  expect(received.map((event) => 'session_id' in event && event.session_id)).not.toContain(others);
  // Opening it, reading its owner, and reading it.
  expect(queries - ready).toBe(4);
});

it('S6 finds changes without a pointer', async () => {
  const user = newUser();
  const session = await openSession(user);
  const received = readerOf(meetingOf(200), user);
  await untilReady(received);
  await closeSession(session);
  await eventually(() => expect(received.at(-1)).toMatchObject({ event: 'session_close', session_id: session }));
});

it('H14 S6 finds without a pointer what a child asks, and that it was answered', async () => {
  const user = newUser();
  const { parent, child } = await parentAndChild(db, {}, { user });
  const grandchild = await childOf(child);
  await withCall(grandchild, 'call_x');
  await age(user, [parent.id, child.id, grandchild.id]);
  const received = readerOf(meetingOf(200), user);
  await untilReady(received);
  const update = { event: 'session_update', session_id: parent.id };
  const { above } = (await rulesInForce(db, grandchild.id))!;
  await grandchild.beginTool(1, TOOL, 'call_x', asks('call_x', { above }));
  await eventually(() => expect(received.at(-1)).toMatchObject({ ...update, state: 'waiting', waits_for: 'approval' }));
  await answer(grandchild, 'once', 'call_x');
  await eventually(() => expect(received.at(-1)).toMatchObject({ ...update, state: 'busy', waits_for: null }));
  expect(received.map((event) => 'session_id' in event && event.session_id)).not.toContain(grandchild.id);
});

it('S6 tells what a session waits for: the user, if anything needs an answer, or a page', async () => {
  const user = newUser();
  const { child } = await parentAndChild(db, {}, { user });
  const waits = async () =>
    (await newestOpen(db, user, 10)).map(({ state, waits_for }) => `${state} ${waits_for}`).toSorted();
  expect(await waits()).toEqual(['busy null']);
  await withCall(child, 'call_x');
  await child.beginTool(1, TOOL, 'call_x', { page_ms: 3_600_000 });
  expect(await waits()).toEqual(['waiting output']);
  const other = await Session.at('chatting', db, { user });
  const run = await other.runWithCalls(['call_1'], STEP);
  await other.beginTool(run, TOOL, 'call_1', asks('call_1'));
  expect(await waits()).toEqual(['waiting approval', 'waiting output']);
});

it('T9 finds an erasure without a pointer', async () => {
  const user = newUser();
  const session = await openSession(user);
  const received = readerOf(meetingOf(200), user);
  await untilReady(received);
  await db.query(`SELECT erase_session($1, $2, 'nowhere', false)`, [session, user]);
  await eventually(() => expect(received.at(-1)).toMatchObject({ event: 'session_close', session_id: session }));
});

it('S6 reads only changes: nothing for users with many unchanged sessions, with one statement for all', async () => {
  const crowd = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const user = newUser();
      const sessions: string[] = [];
      for (let at = 0; at < 50; at++) sessions.push(await openSession(user));
      return { user, sessions };
    }),
  );
  for (const { user, sessions } of crowd) await age(user, sessions);
  const meeting = meetingOf(100);
  const tabs = crowd.map(({ user }) => readerOf(meeting, user));
  await Promise.all(tabs.map(untilReady));
  const [before, from] = [queries, performance.now()];
  await delay(1_000);
  const checks = Math.ceil((performance.now() - from) / 100) + 1;
  expect(queries - before, 'statements').toBeLessThanOrEqual(checks);
  expect(queries - before, 'statements').toBeGreaterThan(1);
  const [changed, received] = [crowd[7]!.sessions[3]!, tabs[7]!];
  await db.query('SELECT write_phase($1, $2)', [changed, 'start_build']);
  await eventually(() =>
    expect(received.at(-1)).toMatchObject({ event: 'session_update', session_id: changed, phase: 'building' }),
  );
  expect(received).toHaveLength(52);
  for (const other of tabs) if (other !== received) expect(other).toHaveLength(51);
});

it('S6 sends missed changes when Postgres can be read again', async () => {
  const user = newUser();
  const session = await openSession(user);
  const received = readerOf(meetingOf(), user);
  await untilReady(received);
  await db.query('SELECT write_phase($1, $2)', [session, 'start_build']);
  await db.query('ALTER TABLE session_aliases RENAME TO session_aliases_away');
  const before = queries;
  publish(session);
  await eventually(() => expect(queries).toBeGreaterThanOrEqual(before + 2));
  expect(received.at(-1)).toEqual({ event: 'ready' });
  await db.query('ALTER TABLE session_aliases_away RENAME TO session_aliases');
  await eventually(() => expect(received.at(-1)).toMatchObject({ session_id: session, phase: 'building' }));
});

it('S6 starts with the newest 200 sessions, and adds older ones when they change', async () => {
  const user = newUser();
  const sessions: string[] = [];
  for (let at = 0; at < 210; at++) sessions.push(await openSession(user));
  await age(user, sessions);
  const received = readerOf(meetingOf(200), user);
  await untilReady(received);
  const newest = sessions.toReversed().slice(0, 200);
  expect(received.slice(0, -1).map((event) => 'session_id' in event && event.session_id)).toEqual(newest);
  const oldest = sessions[0]!;
  await db.query('SELECT write_phase($1, $2)', [oldest, 'start_build']);
  publish(oldest);
  await eventually(() => expect(received.at(-1)).toMatchObject({ event: 'session_open', session_id: oldest }));
  // Further full reads keep it, until it is closed.
  const before = queries;
  await eventually(() => expect(queries).toBeGreaterThan(before + 4));
  expect(received).toHaveLength(202);
  await closeSession(oldest);
  await eventually(() => expect(received.at(-1)).toMatchObject({ event: 'session_close', session_id: oldest }));
});

it('S6 excludes archived sessions and side chats', async () => {
  const user = newUser();
  const [archived, side, plain] = [await openSession(user), await openSession(user), await openSession(user)];
  await db.query('UPDATE chat_sessions SET archived_at = now() WHERE session_id = $1', [archived]);
  await db.query(`UPDATE chat_sessions SET metadata = '{"ephemeral": true}' WHERE session_id = $1`, [side]);
  expect((await newestOpen(db, user, 10)).map((row) => row.session_id)).toEqual([plain]);
});

it('S6 a title is the first line with text, shortened and on one line', () => {
  expect(titleOf(null)).toBeNull();
  expect(titleOf(' \n\t')).toBeNull();
  expect(titleOf('\n  build\t a   site \u202Enow\r\nabout tea')).toBe('build a site now');
  expect(titleOf('🍵'.repeat(80))).toBe('🍵'.repeat(80));
  expect(titleOf('🍵'.repeat(81))).toBe(`${'🍵'.repeat(79)}…`);
});
