// Loads of a session by its workflow, in order and late.
import { expect, it } from 'vitest';
import { freshRows, Session } from './session.ts';

const db = await freshRows();

const first = { execution: 'first', load: 1, askedAt: 1_000 };
const second = { execution: 'second', load: 1, askedAt: 2_000 };

/** Loads a session with each of these, in this order; returns the epochs of the results. */
async function epochs(...loads: (typeof first)[]): Promise<number[]> {
  const session = await Session.at('chatting', db);
  const told: number[] = [];
  for (const load of loads) told.push((await session.load(load)).epoch);
  return told;
}

it('S8 each load raises the epoch: of the same execution, and of the next one', async () => {
  expect(await epochs(first, { ...first, load: 2, askedAt: 1_500 }, second)).toEqual([1, 2, 3]);
});

it('S8 a load that another worker repeats gets the epoch of the first', async () => {
  expect(await epochs(first, { ...first, askedAt: 1_100 })).toEqual([1, 1]);
});

it('S8 an older load of the same execution does not change the epoch, whatever its request time', async () => {
  expect(await epochs({ ...first, load: 2 }, { ...first, askedAt: 9_000 }, { ...first, load: 3 })).toEqual([1, 1, 2]);
});

it('S8 a load of a replaced execution does not change the epoch', async () => {
  expect(await epochs(second, first, { ...second, load: 2 })).toEqual([1, 1, 2]);
});

it('S8 a reset execution loads again, though its run began before the others', async () => {
  const reset = { execution: 'reset of the first', load: 2, askedAt: 3_000 };
  expect(await epochs(first, second, reset)).toEqual([1, 2, 3]);
});

it('S8 a late load changes no row, and returns the session’s current state', async () => {
  const session = await Session.at('chatting', db);
  const run = (await session.say('hello'))['run_seq'];
  await session.load(second);
  const stored = await session.everything();
  expect(await session.load(first)).toMatchObject({ epoch: 1, runs: [{ run_seq: run }] });
  expect(await session.everything()).toEqual(stored);
});
