// How long the histories of an initiative's workflow become while it gets thousands of updates.
import { sendInitiativeUpdate } from '../../../client/send/send-update.ts';
import { newId } from '../../../domain/ids.ts';
import type { InitiativeArgs, InitiativeResult } from '../../../domain/initiatives/initiative-commands.ts';
import { DEFAULT_TASK_QUEUE } from '../../../domain/task-queue.ts';
import { listExecutions } from '../../../worker/replay/history.ts';
import { initiativeUpdateOf } from '../../../workflows/definitions.ts';
import { now } from '../clock.ts';
import type { Figure, Result } from '../figure.ts';
import type { HistorySize } from '../history.ts';
import { createInitiative } from '../initiative.ts';
import { openMany } from '../many.ts';
import { USER } from '../names.ts';
import type { System } from '../servers.ts';

const UPDATE_MS = 30_000;
/** It continues as new at 300 events; with the updates that are under way then. */
const MOST_EVENTS = 450;

/** Sends reports of progress, some at a time, as Temporal's own tools do: each is an update of its own. */
async function report(system: System, initiativeId: string, count: number): Promise<void> {
  const { initiatives, temporal } = system.client;
  const { session } = await initiatives.startSession(USER, initiativeId, { agent: 'bench' });
  const task = await initiatives.assignTask(USER, initiativeId, { work_session: session.id });
  const workflows = { temporal, taskQueue: DEFAULT_TASK_QUEUE, showUser: (user: string) => user };
  const facts = { initiativeId, user: USER, status: 'active', projectId: null };
  await openMany(count, async () => {
    const command_id = newId('cmd');
    const args: InitiativeArgs = { command_id, task_id: task!.task_id, work_session: session.id };
    const name = initiativeUpdateOf('reportProgress');
    const update = { name, id: `reportProgress:${command_id}`, args, deadlineMs: UPDATE_MS };
    const { ok } = await sendInitiativeUpdate<InitiativeResult, InitiativeArgs>(workflows, facts, update);
    if (!ok) throw new Error('an update was refused');
    return command_id;
  });
}

/** The sizes of all executions of an initiative's workflow, of which there are at most `limit`. */
async function executionsOf(
  { client: { temporal } }: System,
  initiativeId: string,
  limit: number,
): Promise<HistorySize[]> {
  const sizes: HistorySize[] = [];
  for (const { runId } of await listExecutions(temporal, { limit, workflowId: initiativeId })) {
    const { historyLength, historySize = Number.NaN } = await temporal.workflow
      .getHandle(initiativeId, runId)
      .describe();
    sizes.push({ events: historyLength, bytes: historySize });
  }
  if (sizes.length === 0) throw new Error('Temporal lists no execution of the initiative');
  return sizes;
}

/** The longest history of an initiative that gets ten thousand updates, sixteen at once. */
export const initiativeHistory: Figure = {
  name: 'initiative-history',
  onRequest: { withinMs: 25 * 60_000 },
  measure: async ({ system, count }): Promise<Result[]> => {
    const initiativeId = await createInitiative(system, 1);
    const from = now();
    await report(system, initiativeId, count);
    const seconds = (now() - from) / 1_000;
    const sizes = await executionsOf(system, initiativeId, count);
    const name = `initiative with ${count} updates, longest of ${sizes.length} executions`;
    const longest = (key: keyof HistorySize) => Math.max(...sizes.map((size) => size[key]));
    return [
      {
        ...{ name: `${name}: events`, value: longest('events'), unit: '', target: { atMost: MOST_EVENTS } },
        detail: `${(count / seconds).toFixed(0)} updates a second`,
      },
      { name: `${name}: bytes`, value: longest('bytes') / 1024, unit: 'KB' },
    ];
  },
};
