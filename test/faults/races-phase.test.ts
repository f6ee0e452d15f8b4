// publish in one tab, cancel in another, at the same instant.
import { beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '@temporalio/client';
import { temporalClient } from '../../client/temporal.ts';
import { cancelUpdate, publishUpdate, snapshotQuery } from '../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/start.ts';
import { eventually } from '../support/eventually.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TestSession } from '../support/session.ts';
import { refusalOf } from './answered.ts';
import { inParallel } from './parallel.ts';
import { raise } from './rows.ts';
import { expectSound } from './sound.ts';

const SESSIONS = 10;
const ROUNDS = 50;
const AGREE_MS = 2_000;

let runtime: TestRuntime;
let other: Client;
beforeAll(async () => {
  runtime = await startRuntime();
  other = temporalClient({ connectionOptions: { address: runtime.address }, namespace: runtime.namespace });
  return () => other.connection.close();
});

describe('publish and cancel race', { timeout: 120_000 }, () => {
  it('S7 500 times: one wins the phase in row, workflow and search attribute, the other is told', async () => {
    const wins = { publish: 0, cancel: 0 };
    await inParallel(SESSIONS, SESSIONS, async () => {
      const session = await TestSession.open(runtime);
      const tabB = session.through({ db: runtime.db, temporal: other });
      for (let round = 0; round < ROUNDS; round += 1) {
        await raise(runtime.db, session.id, ['start_build', 'todo_done_build']);
        const publish = session.command(publishUpdate);
        const cancel = tabB.command(cancelUpdate);
        const [published, cancelled] = await Promise.allSettled([publish, cancel]);
        expect(published.status, 'exactly one wins').not.toBe(cancelled.status);
        const [winner, phase, loser] =
          published.status === 'fulfilled'
            ? (['publish', 'done', cancel] as const)
            : (['cancel', 'chatting', publish] as const);
        wins[winner] += 1;
        expect(await refusalOf(loser)).toMatchObject({ code: 'InvalidTransition', details: { phase } });
        expect(await session.row()).toMatchObject({ phase });
        await eventually(() => expectAgreement(session, phase), { timeout: AGREE_MS });
      }
      await expectSound(runtime, session.id);
    });
    expect(Math.min(wins.publish, wins.cancel), 'both won some races').toBeGreaterThan(0);
  });
});

/** Not at once, for a workflow that has just continued as new has not read its row yet. */
async function expectAgreement(session: TestSession, phase: string): Promise<void> {
  expect(await session.handle.query(snapshotQuery)).toMatchObject({ phase });
  const { typedSearchAttributes } = await session.handle.describe();
  expect(typedSearchAttributes.get(SEARCH_ATTRIBUTES.phase)).toBe(phase);
}
