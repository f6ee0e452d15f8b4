// A worker is deployed whose workflow code cannot replay an existing initiative.
import { expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { clientOf, planned } from '../../tools/test-kit/initiative.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { initiativeSnapshotQuery } from '../../workflows/definitions.ts';
import { variant } from '../histories/variant.ts';

it('I6 W5 an initiative that the deployed code cannot replay reports it, its commands go on, and so does it with code that can', async () => {
  const [runtime, badCode] = await Promise.all([
    startRuntime({ settings: { sweepIntervalMs: 200 } }),
    variant('workflows/initiative.ts', ['await state.load();', 'await state.load(); await sleep(1);']),
  ]);
  const { initiatives } = clientOf(runtime);
  const { initiative } = await initiatives.create('ada', planned([['one', 'two']]));
  const id = initiative.initiative_id;
  const workflow = runtime.temporal.workflow.getHandle(id);
  const snapshot = () =>
    eventually(async () => {
      const found = await workflow.query(initiativeSnapshotQuery);
      expect(found.loading).toBe(false);
      return found;
    });
  await snapshot();
  const { session } = await initiatives.startSession('ada', id, { agent: 'worker' });
  const by = { work_session: session.id };
  const { task_id } = (await initiatives.assignTask('ada', id, by))!;
  // Its first timer has been replaced.
  await eventually(async () => expect((await snapshot()).watched?.work_session).toBe(session.id));
  const kinds = async () => {
    const { rows } = await runtime.db.query<{ kind: string }>(
      `SELECT kind FROM initiative_events WHERE initiative_id = $1 AND kind IN ('stuck', 'unstuck') ORDER BY seq`,
      [id],
    );
    return rows.map(({ kind }) => kind);
  };
  await runtime.first.stop();
  const bad = await runtime.startWorker({ workflowBundle: badCode });
  await initiatives.startTask('ada', id, task_id, by);
  await eventually(async () => expect(await kinds()).toEqual(['stuck']));
  const said = runtime.logs.filter(({ msg, initiative: of }) => /cannot continue/.test(msg) && of === id);
  expect(said).toMatchObject([{ level: 50, cause: 'NonDeterministicError' }]);
  await initiatives.completeTask('ada', id, task_id, by);
  await bad.stop();
  await runtime.startWorker();
  await eventually(async () => expect(await kinds()).toEqual(['stuck', 'unstuck']));
  // What it has missed the next command tells it.
  await initiatives.updateState('ada', id, { next_action: 'go on' });
  await eventually(async () => expect((await snapshot()).watched).toBeNull());
});
