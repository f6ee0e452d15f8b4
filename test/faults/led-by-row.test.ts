// A worker begins a turn of a session whose workflow is in no worker's cache (activities/head-starts/head-starts.ts).
import { beforeAll, expect, it } from 'vitest';
import { DEFAULT_TASK_QUEUE } from '../../domain/task-queue.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { sweepRuns } from '../../worker/periodic/sweep-runs.ts';
import { statusQuery, updates } from '../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/start.ts';
import faultAgent from './agent.ts';
import { EarlyTurns, said, STEP } from './early-turns.ts';
import { payingAgent, untilWaiting } from './paying.ts';
import { loadElsewhere } from './rows.ts';
import { expectSound } from './sound.ts';

const SESSIONS = 20;

let runtime: TestRuntime;
let early: EarlyTurns;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent, payingAgent], settings: { sweepIntervalMs: 3_600_000 } });
  early = new EarlyTurns(runtime);
});

const open = () => TestSession.open(runtime, { agent: 'faults' });

/** Until a message that was accepted now is answered: what was announced before has been looked at. */
async function untilAnother(): Promise<void> {
  const session = await open();
  await session.ended((await early.accept(session, 'another')).run);
}

it('W1 answers before the workflow is started, and again; the workflow then repeats nothing', async () => {
  early.script({});
  const session = await open();
  const first = await early.accept(session, 'W1 new');
  expect(await session.ended(first.run)).toMatchObject({ state: 'finished', fence: [0, 1, 0] });
  const second = await early.accept(session, 'W1 new again');
  expect(await session.ended(second.run)).toMatchObject({ state: 'finished', fence: [0, 1, 0] });
  await expect(session.handle.describe()).rejects.toThrow('not found');
  await first.wake();
  await second.wake();
  await early.untilIdle(session);
  expect(early.requestsOf('W1 new')).toHaveLength(1);
  expect(early.requestsOf('W1 new again')).toHaveLength(1);
  expect((await session.ended(await session.send('and now?'))).state).toBe('finished');
  await expectSound(runtime, session.id);
});

it('W4 the workflow that starts meanwhile adopts the answer', async () => {
  const gate = new Gate();
  early.script({
    'W4 starts': async function* () {
      yield say('first words');
      await gate.pass();
      yield say(', last words');
    },
  });
  const session = await open();
  const { run, wake } = await early.accept(session, 'W4 starts');
  await gate.reached;
  await wake();
  await eventually(async () => expect((await session.run(run)).head_start_at).toBeNull());
  gate.open();
  expect((await session.ended(run)).state).toBe('finished');
  await early.untilIdle(session);
  expect(early.requestsOf('W4 starts')).toHaveLength(1);
  expect(await early.partsOf(session, run)).toEqual([STEP, said('first words, last words')]);
  await expectSound(runtime, session.id);
});

it('W1 of two workers one begins', async () => {
  early.script({});
  const other = await runtime.startWorker();
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, open));
  await Promise.all(
    sessions.map(async (session) => {
      const { run } = await early.accept(session, `both for ${session.id}`);
      expect((await session.ended(run)).state).toBe('finished');
      expect(early.requestsOf(`both for ${session.id}`)).toHaveLength(1);
    }),
  );
  await other.stop();
});

it('W4 a worker that is overtaken by a load begins under the new epoch', async () => {
  early.script({});
  const session = await open();
  await session.ended((await early.accept(session, 'W4 before')).run);
  await loadElsewhere(runtime.db, session.id);
  const { run, wake } = await early.accept(session, 'W4 after');
  expect(await session.ended(run)).toMatchObject({ state: 'finished', fence: [1, 1, 0] });
  await wake();
  await early.untilIdle(session);
  expect(early.requestsOf('W4 after')).toHaveLength(1);
});

const WAITING = ['pay', 'locate'];
it.each(WAITING)('W6 R5 a turn that waits, whose wake-up was lost, gets a workflow that says so: %s', async (tool) => {
  early.script({
    [`W6 ${tool}`]: ({ messages }) =>
      messages.at(-1)!.role === 'tool'
        ? [say('fine')]
        : [callTool('call_1', tool, tool === 'pay' ? { amount: 5 } : {})],
  });
  const session = await TestSession.open(runtime, { agent: payingAgent.id });
  const { run } = await early.accept(session, `W6 ${tool}`);
  const call = await untilWaiting(session, run);
  await expect(session.handle.describe()).rejects.toThrow('not found');
  const { db, temporal: client, log } = runtime;
  /** Makes the check due that is scheduled soon, if there is one. */
  const due = async () => {
    const sql = `UPDATE chat_runs SET check_at = now() - interval '1 second'
                  WHERE session_id = $1 AND check_at < now() + interval '1 minute'`;
    return (await db.query(sql, [session.id])).rowCount;
  };
  expect(await due()).toBe(1);
  const sweeper = { db, client, log, taskQueue: DEFAULT_TASK_QUEUE, showUser: (user: string) => user };
  await eventually(async () => {
    await due();
    await sweepRuns({ ...sweeper, woken: () => {} });
    const attributes = (await session.handle.describe()).typedSearchAttributes;
    expect(attributes.get(SEARCH_ATTRIBUTES.status)).toBe('waiting');
  });
  expect(await session.handle.query(statusQuery)).toMatchObject({ state: 'waiting' });
  expect(await due(), 'it is not swept again').toBe(0);
  if (tool === 'pay') await session.command(updates.answer, { tool_call_id: call, decision: 'once' });
  else await session.command(updates.abort);
  expect((await session.ended(run)).state).toBe(tool === 'pay' ? 'finished' : 'aborted');
  await early.untilIdle(session);
  await expectSound(runtime, session.id);
});

it.each(WAITING)(
  'R5 P3 a turn waits, and the worker that began it is gone: its workflow waits, too: %s',
  async (tool) => {
    const own = await startRuntime({ agents: [payingAgent], settings: { sweepIntervalMs: 3_600_000 } });
    const begins = new EarlyTurns(own);
    begins.script({
      [`R5 ${tool}`]: ({ messages }) =>
        messages.at(-1)!.role === 'tool'
          ? [say('fine')]
          : [callTool('call_1', tool, tool === 'pay' ? { amount: 5 } : {})],
    });
    const session = await TestSession.open(own, { agent: payingAgent.id });
    // The workflow has loaded the session, and hears of the next run when it waits already.
    await session.ended(await session.send('before'));
    const { run, wake } = await begins.accept(session, `R5 ${tool}`);
    const call = await untilWaiting(session, run);
    await own.first.stop();
    await own.startWorker();
    await wake();
    await eventually(async () => {
      expect(await session.handle.query(statusQuery)).toMatchObject({ state: 'waiting' });
    });
    if (tool === 'pay') await session.command(updates.answer, { tool_call_id: call, decision: 'once' });
    else await session.command(updates.abort);
    expect((await session.ended(run)).state).toBe(tool === 'pay' ? 'finished' : 'aborted');
    await begins.untilIdle(session);
    await expectSound(own, session.id);
  },
);

it('W5 a stuck session waits for code that can go on with it', async () => {
  early.script({});
  const session = await open();
  await runtime.db.query('SELECT note_stuck($1, $2)', [session.id, 'a test']);
  const { run } = await early.accept(session, 'W5 stuck');
  await untilAnother();
  expect((await session.run(run)).state).toBe('queued');
  expect(early.requestsOf('W5 stuck')).toEqual([]);
});
