// A scenario of an initiative: commands, a work session that crashes, continuing as new, and closing when idle.
import { createClient } from '../../client/client.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { CANARY, type Scenario } from './scenario.ts';

const initiative: Scenario = {
  name: 'initiative',
  options: { settings: { staleAssignmentMs: 700, staleProgressMs: 700, idleCloseMs: 1_000, continueAsNewEvents: 40 } },
  async play(runtime) {
    const client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
    try {
      const { initiatives } = client;
      const tasks = [{ name: `one ${CANARY}` }, { name: 'two' }];
      const made = await initiatives.create('ada', {
        title: CANARY,
        phases: [{ name: 'p', plans: [{ name: 'l', tasks }] }],
      });
      const id = made.initiative.initiative_id;
      const handle = runtime.temporal.workflow.getHandle(id);
      const crashes = async () => {
        const { session } = await initiatives.startSession('ada', id, { agent: 'worker' });
        const work = { work_session: session.id };
        const task = await initiatives.assignTask('ada', id, work);
        await initiatives.reportProgress('ada', id, task?.task_id ?? '', { ...work, note: CANARY });
        await eventually(async () => {
          const { sessions } = await initiatives.get('ada', id);
          if (sessions.some(({ status }) => status !== 'crashed')) throw new Error('it has not crashed yet');
        });
      };
      await crashes();
      const { session } = await initiatives.startSession('ada', id, { agent: 'worker' });
      const work = { work_session: session.id };
      for (const _ of tasks) {
        const task = (await initiatives.assignTask('ada', id, work))?.task_id ?? '';
        await initiatives.startTask('ada', id, task, work);
        await initiatives.addBlocker('ada', id, { description: CANARY, affects: [], blocked_tasks: [task] });
        await initiatives.resolveBlocker('ada', id, (await initiatives.get('ada', id)).blockers.at(-1)?.id ?? '', {
          resolution: CANARY,
        });
        await initiatives.startTask('ada', id, task, work);
        await initiatives.completeTask('ada', id, task, { ...work, note: CANARY });
      }
      await initiatives.endSession('ada', id, session.id, {});
      await handle.result();
      return { id, handle };
    } finally {
      await client.end();
    }
  },
};

export const initiatives: readonly Scenario[] = [initiative];
