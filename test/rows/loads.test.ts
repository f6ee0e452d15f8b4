// Loads of a session by its workflow, in order and late.
import { expect, it } from 'vitest';
import { loadSession } from '../../store/sessions.ts';
import { deliverTask } from '../../store/tasks.ts';
import { parentAndChild } from './family.ts';
import { call, freshRows, refusal, Session } from './session.ts';

const db = await freshRows();

interface Load {
  execution: string;
  load: number;
  /** By Temporal's clock, which may step back. */
  askedAt: number;
  /** The execution that has continued as this one. */
  continues?: string;
  /** Temporal's newest execution at that time. */
  current?: string;
}

const first: Load = { execution: 'first', load: 1, askedAt: 3_000 };
const second: Load = { execution: 'second', load: 1, askedAt: 2_000, current: 'second' };

/** Loads a session with each of these, in this order; returns the epochs of the results. */
async function epochs(...loads: Load[]): Promise<number[]> {
  const session = await Session.at('chatting', db);
  const told: number[] = [];
  for (const load of loads) told.push((await loaded(session, load)).epoch);
  return told;
}

async function loaded({ id: session_id }: Session, { execution, load, askedAt: asked_at, continues, current }: Load) {
  const args = { session_id, load, asked_at, ...(continues !== undefined && { continues }) };
  const isCurrent = () => {
    if (current === undefined) throw new Error('Temporal was asked');
    return Promise.resolve(execution === current);
  };
  return (await loadSession(db, args, execution, isCurrent))!;
}

it('S8 each load raises the epoch: of the same execution, and of the next one', async () => {
  expect(await epochs(first, { ...first, load: 2 }, second)).toEqual([1, 2, 3]);
});

it('S8 an execution that continues the one before need not ask Temporal', async () => {
  const { current: _, ...next } = second;
  expect(await epochs(first, { ...next, continues: 'first' }, { ...next, load: 2 })).toEqual([1, 2, 3]);
});

it('S8 a load that another worker repeats gets the epoch of the first', async () => {
  expect(await epochs(first, { ...first, askedAt: 1_100 })).toEqual([1, 1]);
});

it('S8 an older load of the same execution does not change the epoch, whatever its request time', async () => {
  expect(await epochs({ ...first, load: 2 }, { ...first, askedAt: 9_000 }, { ...first, load: 3 })).toEqual([1, 1, 2]);
});

it('S8 a load of a replaced execution does not change the epoch', async () => {
  expect(await epochs(second, { ...first, current: 'second' }, { ...second, load: 2 })).toEqual([1, 1, 2]);
});

it('S8 a load whose execution is replaced while it asks does not change the epoch', async () => {
  const session = await Session.at('chatting', db);
  await loaded(session, { ...first, execution: 'before' });
  const args = { session_id: session.id, load: 1, asked_at: 5_000 };
  const answers = [true, false];
  const late = await loadSession(db, args, 'first', async () => {
    // Temporal's answer is of the moment before this.
    if (answers.length === 2) expect((await loaded(session, second)).epoch).toBe(2);
    return answers.shift()!;
  });
  expect(late!.epoch).toBe(2);
  expect((await loaded(session, { ...second, load: 2 })).epoch).toBe(3);
});

it('S8 a reset execution loads again', async () => {
  const reset = { execution: 'reset of the first', load: 2, askedAt: 1_000, current: 'reset of the first' };
  expect(await epochs(first, second, reset)).toEqual([1, 2, 3]);
});

it('S8 a late load changes no row, and returns the session’s current state', async () => {
  const session = await Session.at('chatting', db);
  const run = (await session.say('hello'))['run_seq'];
  await loaded(session, second);
  const stored = await session.everything();
  expect(await loaded(session, { ...first, current: 'second' })).toMatchObject({ epoch: 1, runs: [{ run_seq: run }] });
  expect(await session.everything()).toEqual(stored);
});

it('W8 what a workflow does by local activities waits for a locked session for a second, not for ever', async () => {
  const { child } = await parentAndChild(db);
  const holder = await db.connect();
  const patient = await db.connect();
  try {
    await patient.query(`SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)`);
    await holder.query('BEGIN');
    await holder.query('SELECT FROM chat_sessions FOR UPDATE');
    const on = child.through(patient);
    expect(await refusal(call(patient, 'load_session', [child.id, 'second', 1, 1, '']))).toBe('55P03');
    expect(await refusal(on.abort())).toBe('55P03');
    expect(await refusal(on.settleRun(1, 'error'))).toBe('55P03');
    expect(await refusal(deliverTask(patient, child.id, null))).toBe('55P03');
  } finally {
    await holder.query('ROLLBACK');
    holder.release();
    patient.release(true);
  }
});
