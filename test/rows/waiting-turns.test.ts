// Turns that wait in several workers: one of them tells the others, and postpones the checks of their runs.
import { expect, it } from 'vitest';
import { Admission } from '../../activities/admission/admission.ts';
import type { BusEvent } from '../../bus/bus.ts';
import { postponeChecks } from '../../store/sweep.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { WaitingTurns } from '../../worker/slots/waiting-turns.ts';
import { freshRows, Session } from './session.ts';

const db = await freshRows();

/** New sessions, each with a queued run, and these runs in the order of their sessions' ids. */
async function queued(count: number) {
  const sessions = await Promise.all(Array.from({ length: count }, () => Session.saying(db, 'one')));
  const runs = sessions.map(({ id }) => ({ session: id, run: 1 })).toSorted((a, b) => (a.session < b.session ? -1 : 1));
  return { sessions, runs };
}

/** Lets time pass for the checks of these sessions. */
const later = (sessions: readonly Session[], seconds: number) =>
  db.query('UPDATE chat_runs SET check_at = check_at - make_interval(secs => $2) WHERE session_id = ANY ($1)', [
    sessions.map(({ id }) => id),
    seconds,
  ]);

it('W7 a worker postpones what no other one has postponed in the last five seconds, and waits for no row', async () => {
  const { sessions, runs } = await queued(3);
  const [held, free, begun] = runs.map(({ session }) => session);
  await sessions.find(({ id }) => id === begun)!.claim(1, [0, 1, 1]);
  const other = await db.connect();
  try {
    await other.query('BEGIN');
    await other.query('SELECT FROM chat_runs WHERE session_id = $1 FOR UPDATE', [held]);
    expect(await postponeChecks(db, runs)).toEqual([{ session: free, run: 1 }]);
    await other.query('ROLLBACK');
  } finally {
    other.release();
  }
  expect(await postponeChecks(db, runs)).toEqual([{ session: held, run: 1 }]);
  expect(await postponeChecks(db, runs)).toEqual([]);
  await later(sessions, 4);
  expect(await postponeChecks(db, runs)).toEqual([]);
  await later(sessions, 2);
  expect(new Set((await postponeChecks(db, runs)).map(({ session }) => session))).toEqual(new Set([held, free]));
});

it('W7 of workers that postpone the same runs at the same time, in any order, each run has one', async () => {
  const { runs } = await queued(30);
  const both = [runs, runs.toReversed()];
  const postponed = await Promise.all(Array.from({ length: 8 }, (_, n) => postponeChecks(db, both[n % 2]!)));
  const sessions = postponed.flat().map(({ session }) => session);
  expect(new Set(sessions).size).toBe(sessions.length);
  // A run that one had locked may have been left out by the others.
  const rest = await postponeChecks(db, runs);
  expect([...sessions, ...rest.map(({ session }) => session)].toSorted()).toEqual(runs.map(({ session }) => session));
});

it('Q2 of two workers in which a turn waits one tells the others', async () => {
  const { sessions, runs } = await queued(1);
  const [{ session, run }] = runs as [{ session: string; run: number }];
  const bus = createMemoryBus();
  const told: BusEvent[] = [];
  bus.subscribe((event) => void told.push(event));
  const full = () => {
    const admission = new Admission({ maxStreams: 1, maxLagMs: 100 });
    expect(admission.tryAdmit()).toBeDefined();
    void admission.admit({ user: 'ada', session, run }, new AbortController().signal);
    return { admission, waiting: new WaitingTurns({ admission, bus, db }) };
  };
  const workers = [full(), full()];
  for (const { admission } of workers) await eventually(() => expect(admission.waitingFor(500)).toHaveLength(1));
  const once = [
    { session, kind: 'evicted' },
    { session, run, kind: 'accepted' },
  ];
  for (const { waiting } of workers) await waiting.tell();
  await eventually(() => expect(told).toEqual(once));
  // The first one is lost: the second one tells of the turn when it is due.
  await later(sessions, 6);
  await workers[1]!.waiting.tell();
  await eventually(() => expect(told).toEqual([...once, ...once]));
});
