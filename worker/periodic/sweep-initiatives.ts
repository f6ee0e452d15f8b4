import { sendInitiativeUpdate } from '../../client/send/send-update.ts';
import { claimStaleInitiatives, type Staleness } from '../../store/initiative-workflows.ts';
import { initiativeWakeUpdate } from '../../workflows/definitions.ts';
import type { SweepDeps } from './sweep-deps.ts';

const AT_ONCE = 50;
const DEADLINE_MS = 3_000;

interface InitiativeSweeperDeps extends SweepDeps {
  settings: Staleness;
}

/** Wakes initiatives whose workflow should have ended a stale work session two seconds ago. The workflow ends it when it loads. */
export async function sweepInitiatives({ db, client, log, settings, ...rest }: InitiativeSweeperDeps): Promise<void> {
  const due = await claimStaleInitiatives(db, settings, AT_ONCE);
  const wake = async ({
    initiative_id: initiativeId,
    user_id: user,
    project_id: projectId,
    status,
  }: (typeof due)[0]) => {
    log.info({ initiative: initiativeId }, 'waking an initiative that did not end a stale work session');
    const update = {
      name: initiativeWakeUpdate,
      id: `sweep:${initiativeId}:${Date.now()}`,
      args: {},
      deadlineMs: DEADLINE_MS,
    };
    await sendInitiativeUpdate({ temporal: client, ...rest }, { initiativeId, user, projectId, status }, update).catch(
      (error: unknown) => log.warn({ err: error, initiative: initiativeId }, 'an initiative could not be woken'),
    );
  };
  await Promise.all(due.map((each) => wake(each)));
}
