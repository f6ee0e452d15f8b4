// Replays that are asked for in the console: who carries them out, and what is known of them.
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { eraseSession } from '../../store/erasure.ts';
import { askForReplay, claimReplay, finishReplay, readReplay, releaseReplay } from '../../store/replays.ts';
import { freshRows, Session } from './session.ts';

const db = await freshRows();
const MOST = { all: 20, ofUser: 20 };
const LONG = 60_000;

const stateOf = async ({ id }: Session) => (await readReplay(db, id)).state;

it('W5 a replay is asked for once while it is open, and one worker claims it', async () => {
  const [one, two] = [randomUUID(), randomUUID()];
  const session = await Session.at('chatting', db);
  expect(await stateOf(session)).toBe('none');
  expect(await askForReplay(db, session.id, MOST)).toBe(true);
  expect(await askForReplay(db, session.id, MOST)).toBe(false);
  expect(await stateOf(session)).toBe('queued');
  const claimed = await claimReplay(db, one, LONG);
  expect(claimed).toEqual({ session_id: session.id, attempt: 1 });
  expect([await claimReplay(db, two, LONG), await stateOf(session)]).toEqual([undefined, 'running']);

  // The first worker is lost: what it brings later is not taken.
  const again = await claimReplay(db, two, 0);
  expect(again).toEqual({ session_id: session.id, attempt: 2 });
  await finishReplay(db, one, claimed!, { executions: [], problem: 'late' });
  expect(await stateOf(session)).toBe('running');
  const broke = 'event 8 (TimerStarted): it differs';
  const execution = {
    run_id: 'r',
    started_at: '2026-01-01T00:00:00.000Z',
    events: 9,
    outcome: 'broke' as const,
    broke,
  };
  await finishReplay(db, two, again!, { executions: [execution], problem: null });
  expect(await readReplay(db, session.id)).toMatchObject({ state: 'done', worker: two, executions: [execution] });

  // Another one takes its place. A worker that stops gives it back.
  expect(await askForReplay(db, session.id, MOST)).toBe(true);
  expect(await readReplay(db, session.id)).toMatchObject({ state: 'queued', worker: null, executions: [] });
  await releaseReplay(db, one, (await claimReplay(db, one, LONG))!);
  expect(await stateOf(session)).toBe('queued');
  const last = await claimReplay(db, two, LONG);
  expect(last).toEqual({ session_id: session.id, attempt: 1 });
  await finishReplay(db, two, last!, { executions: [], problem: 'Temporal is away' });
  expect(await readReplay(db, session.id)).toMatchObject({ state: 'failed', problem: 'Temporal is away' });
});

it('W5 the open replays of all sessions are bounded, and an erased session has none', async () => {
  const [session, other] = [await Session.at('chatting', db), await Session.at('chatting', db)];
  const one = { ...MOST, all: 1 };
  expect(await askForReplay(db, session.id, one)).toBe(true);
  expect([await askForReplay(db, other.id, one), await stateOf(other)]).toEqual([false, 'none']);
  const claimed = await claimReplay(db, randomUUID(), LONG);
  await eraseSession(db, { sessionId: session.id, userId: 'ada', home: 'h', wholeUser: false });
  await finishReplay(db, randomUUID(), claimed!, { executions: [], problem: null });
  expect(await stateOf(session)).toBe('none');
  expect(await askForReplay(db, session.id, MOST)).toBe(false);
  expect(await askForReplay(db, other.id, one)).toBe(true);
});

it('W5 Q3 the open replays of one user keep no other user from theirs', async () => {
  const [first, second] = [
    await Session.at('chatting', db, { user: 'eve' }),
    await Session.at('chatting', db, { user: 'eve' }),
  ];
  const other = await Session.at('chatting', db, { user: 'nora' });
  const most = { ...MOST, ofUser: 1 };
  expect(await askForReplay(db, first.id, most)).toBe(true);
  expect([await askForReplay(db, second.id, most), await stateOf(second)]).toEqual([false, 'none']);
  expect([await askForReplay(db, other.id, most), await stateOf(other)]).toEqual([true, 'queued']);
});
