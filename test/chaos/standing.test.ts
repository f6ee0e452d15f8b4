// What a campaign keeps of a session that makes no progress.
import { expect, it } from 'vitest';
import { standingOf } from '../../tools/chaos/standing.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';

it('Q1 a campaign keeps what the workflow of a session without progress waits for', async () => {
  const { db, temporal, model } = await startRuntime();
  const gate = new Gate();
  model.script(async function* () {
    await gate.pass();
    yield say('done');
  });
  const session = await TestSession.open({ db, temporal });
  expect(await standingOf(db, temporal, session.id)).toMatchObject({
    runs: [],
    workflow: expect.stringContaining('not found') as string,
  });
  const run = await session.send('hello');
  await gate.reached;
  await eventually(async () => {
    expect(await standingOf(db, temporal, session.id)).toMatchObject({
      runs: [{ seq: run, state: 'running' }],
      workflow: {
        status: 'RUNNING',
        activities: [{ type: 'streamStep', attempt: 1, scheduled: expect.any(Date) as Date }],
      },
      snapshot: { run: { run_seq: run } },
    });
  });
  gate.open();
  await session.ended(run);
  await eventually(async () => {
    expect(await standingOf(db, temporal, session.id)).toMatchObject({
      runs: [],
      workflow: { isTaskPending: false, activities: [] },
      snapshot: { run: null },
    });
  });
});
