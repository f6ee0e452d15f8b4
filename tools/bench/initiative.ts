// Initiatives as a backend service makes and works on them.
import { sendInitiativeUpdate } from '../../client/send/send-update.ts';
import { newId } from '../../domain/ids.ts';
import { DEFAULT_TASK_QUEUE } from '../../domain/task-queue.ts';
import { initiativeWakeUpdate } from '../../workflows/definitions.ts';
import { USER } from './names.ts';
import type { System } from './servers.ts';

const WAKE_MS = 30_000;

/** Creates an initiative with one plan of tasks. Returns its id. */
export async function createInitiative({ client }: System, tasks: number): Promise<string> {
  const named = Array.from({ length: tasks }, (_, n) => ({ name: `task ${n}` }));
  const phases = [{ name: 'phase', plans: [{ name: 'plan', tasks: named }] }];
  return (await client.initiatives.create(USER, { title: 'Bench', phases })).initiative.initiative_id;
}

/** Lets one work session complete a task. Returns when the workflow knows it. */
export async function workOnce({ client }: System, initiativeId: string): Promise<void> {
  const { initiatives, temporal } = client;
  const { session } = await initiatives.startSession(USER, initiativeId, { agent: 'bench' });
  const work = { work_session: session.id };
  const task = await initiatives.assignTask(USER, initiativeId, work);
  if (task === undefined) throw new Error('there was no task');
  await initiatives.startTask(USER, initiativeId, task.task_id, work);
  await initiatives.completeTask(USER, initiativeId, task.task_id, work);
  await initiatives.endSession(USER, initiativeId, session.id, {});
  await sendInitiativeUpdate(
    { temporal, taskQueue: DEFAULT_TASK_QUEUE, showUser: (user) => user },
    { initiativeId, user: USER, status: 'active', projectId: null },
    { name: initiativeWakeUpdate, id: `wake:${newId('cmd')}`, args: {}, deadlineMs: WAKE_MS },
  );
}
