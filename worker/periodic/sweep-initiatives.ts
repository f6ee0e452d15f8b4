import { sendInitiativeUpdate } from '../../client/send/send-update.ts';
import {
  type ChangedInitiative,
  claimChangedInitiatives,
  claimStaleInitiatives,
  endInitiativeChecks,
  type StaleInitiative,
  type Staleness,
} from '../../store/initiative-workflows.ts';
import { initiativeWakeUpdate } from '../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/start.ts';
import { describeWorkflow } from './describe-workflow.ts';
import type { SweepDeps } from './sweep-deps.ts';

/** Initiatives of each kind per sweep. */
const AT_ONCE = 50;
const DEADLINE_MS = 3_000;

/** Wakes initiatives whose workflow should have ended a stale work session two seconds ago: woken, they load their rows. */
export async function sweepInitiatives(deps: SweepDeps & { settings: Staleness }): Promise<void> {
  const stale = await claimStaleInitiatives(deps.db, deps.settings, AT_ONCE);
  await Promise.all(
    stale.map((each) => wake(deps, each, 'waking an initiative that did not end a stale work session')),
  );
}

/**
 * Wakes initiatives whose workflow does not show their status in Temporal, two seconds after it changed: nobody told it, or it was
 * terminated, or there has never been one. Until it does, they are claimed again.
 */
export async function sweepChangedInitiatives(deps: SweepDeps): Promise<void> {
  const changed = await claimChangedInitiatives(deps.db, AT_ONCE);
  const shown: ChangedInitiative[] = [];
  await Promise.all(
    changed.map(async (each) => {
      const workflow = await describeWorkflow(deps.client, each.initiative_id);
      if (workflow?.typedSearchAttributes.get(SEARCH_ATTRIBUTES.status) === each.status) shown.push(each);
      else await wake(deps, each, 'waking an initiative that does not show its status');
    }),
  );
  if (shown.length > 0) await endInitiativeChecks(deps.db, shown);
}

async function wake(
  { client, log, ...rest }: SweepDeps,
  { initiative_id: initiativeId, user_id: user, project_id: projectId, status }: StaleInitiative,
  why: string,
): Promise<void> {
  log.info({ initiative: initiativeId }, why);
  const update = {
    name: initiativeWakeUpdate,
    id: `sweep:${initiativeId}:${Date.now()}`,
    args: {},
    deadlineMs: DEADLINE_MS,
  };
  await sendInitiativeUpdate({ temporal: client, ...rest }, { initiativeId, user, projectId, status }, update).catch(
    (error: unknown) => log.warn({ err: error, initiative: initiativeId }, 'an initiative could not be woken'),
  );
}
