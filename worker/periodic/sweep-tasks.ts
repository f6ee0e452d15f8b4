import { deliverResult } from '../../activities/recording/tasks.ts';
import type { Bus } from '../../bus/bus.ts';
import { sendUpdate } from '../../client/send/send-update.ts';
import { claimDueTasks } from '../../store/tasks.ts';
import { submitUpdate } from '../../workflows/definitions.ts';
import type { SweepDeps } from './sweep-deps.ts';

const AT_ONCE = 50;
const DEADLINE_MS = 3_000;

interface TaskSweeperDeps extends SweepDeps {
  bus: Bus;
}

/** Tells the parents of children that were over two seconds ago, if the children's workflows have not done so. */
export async function sweepTasks(deps: TaskSweeperDeps): Promise<void> {
  const children = await claimDueTasks(deps.db, AT_ONCE);
  await Promise.all(children.map((child) => tell(deps, child)));
}

async function tell({ db, bus, client, taskQueue, showUser, log }: TaskSweeperDeps, child: string): Promise<void> {
  try {
    const told = await deliverResult({ db, bus }, child);
    if (told.kind !== 'tell') return;
    await sendUpdate({ temporal: client, taskQueue, showUser }, told, {
      name: submitUpdate,
      id: `task:${child}:${Date.now()}`,
      args: { run_seq: told.run_seq, message_id: told.message_id, model: told.model },
      deadlineMs: DEADLINE_MS,
    });
  } catch (error) {
    log.warn({ err: error, session: child }, 'the parent of a session that is over could not be told');
  }
}
