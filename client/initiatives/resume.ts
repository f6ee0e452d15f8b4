import { PerdureError } from '../../domain/errors.ts';
import type { InitiativeResume, InitiativeView, WorkSession } from '../../wire/initiative-views.ts';
import { checkLeftBehind, type Mismatch } from '../../workspaces/check-left-behind.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';
import { requireWorkspace } from '../../workspaces/require-workspace.ts';

/** The workspace of an initiative: its `workspace_root`, else the folder of its project, else one of its own. */
export function initiativeFolder(workspaces: string, { initiative }: Pick<InitiativeView, 'initiative'>): string {
  return workspaceRoot(workspaces, { ...initiative, session_id: initiative.initiative_id });
}

/**
 * The entries of resume_context that are not in the initiative's workspace.
 * @param workspaces the folder of all workspaces; undefined: it is not known here, and nothing is checked
 * @throws {PerdureError} `WorkspaceNotUsable`
 */
export async function mismatchesOf(
  workspaces: string | undefined,
  { initiative }: Pick<InitiativeView, 'initiative'>,
): Promise<Mismatch[]> {
  const { files_modified_this_session: files, key_implementations: implementations } = initiative.resume_context;
  if (workspaces === undefined || files.length + implementations.length === 0) return [];
  const root = initiativeFolder(workspaces, { initiative });
  requireWorkspace(workspaces, root);
  return checkLeftBehind(root, { files, implementations });
}

const MAX_LAST = 5;

/** Where an initiative goes on, and what has to be known for it. */
export function resumeOf({
  initiative,
  state,
  phases,
  decisions,
  blockers,
  sessions,
}: InitiativeView): InitiativeResume {
  const { position } = state;
  const plans = phases.find(({ phase }) => phase === position.phase)?.plans ?? [];
  const plan = plans.find((each) => each.plan === position.plan);
  if (plan === undefined) throw new PerdureError('Internal', 'the position names no plan');
  return {
    message: messageOf(initiative, position),
    position,
    plan,
    summaries: plans.flatMap(({ plan: number, name, summary }) =>
      number < position.plan && summary !== null ? [{ plan: number, name, summary }] : [],
    ),
    decisions,
    blockers: blockers.filter(({ status }) => status === 'active'),
    last_sessions: lastOf(sessions),
    review: initiative.review,
  };
}

/** The work sessions that ended last, the last one first. */
function lastOf(sessions: InitiativeView['sessions']): WorkSession[] {
  const over = sessions.toReversed().filter(({ ended }) => ended !== null);
  return over.toSorted((a, b) => (b.ended ?? '').localeCompare(a.ended ?? '')).slice(0, MAX_LAST);
}

function messageOf(
  { status, review }: InitiativeView['initiative'],
  { phase, plan, task }: InitiativeView['state']['position'],
): string {
  const place = `Phase ${phase}, Plan ${plan}, Task: ${task}`;
  if (review !== null) return `Review required: the workspace is not as it was left, at ${place}`;
  return status === 'completed' ? 'All phases are completed' : `Resuming from ${place}`;
}
