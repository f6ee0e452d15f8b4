import { sendInitiativeUpdate } from '../../client/send/send-update.ts';
import {
  type ChangedInitiative,
  claimChangedInitiatives,
  claimStaleInitiatives,
  endInitiativeCheck,
  type StaleInitiative,
  type Staleness,
} from '../../store/initiative-workflows.ts';
import { initiativeWakeUpdate } from '../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/start.ts';
import type { SweepDeps } from './sweep-deps.ts';

/** Initiatives of each kind per sweep. */
const AT_ONCE = 50;
const DEADLINE_MS = 3_000;

interface InitiativeSweeperDeps extends SweepDeps {
  settings: Staleness;
}

/**
 * Wakes initiatives whose workflow has missed something two seconds ago: the end of a stale work session, or a change of the status,
 * which it shows in Temporal. It has missed that if nobody told it, or it was terminated. It loads its rows then.
 */
export async function sweepInitiatives(deps: InitiativeSweeperDeps): Promise<void> {
  const { db, settings } = deps;
  const stale = await claimStaleInitiatives(db, settings, AT_ONCE);
  await Promise.all(
    stale.map((each) => wake(deps, each, 'waking an initiative that did not end a stale work session')),
  );
  const changed = await claimChangedInitiatives(db, AT_ONCE);
  await Promise.all(changed.map((each) => check(deps, each)));
}

/** Wakes an initiative whose workflow does not show its status. Until it does, it is claimed again. */
async function check(deps: InitiativeSweeperDeps, changed: ChangedInitiative): Promise<void> {
  if ((await shownStatus(deps, changed.initiative_id)) !== changed.status)
    return wake(deps, changed, 'waking an initiative that does not show its status');
  await endInitiativeCheck(deps.db, changed);
}

/** The status of an initiative in Temporal; undefined: it has no workflow, or that cannot be read. */
async function shownStatus({ client }: SweepDeps, id: string): Promise<string | undefined> {
  try {
    const describe = () => client.workflow.getHandle(id).describe();
    const { typedSearchAttributes } = await client.connection.withDeadline(Date.now() + DEADLINE_MS, describe);
    return typedSearchAttributes.get(SEARCH_ATTRIBUTES.status);
  } catch {
    return undefined;
  }
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
