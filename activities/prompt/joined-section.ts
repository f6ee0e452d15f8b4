import { type InitiativeBrief, initiativeSection } from '../../agent/initiatives/initiative-brief.ts';
import { joinedInitiative } from '../../agent/initiatives/initiative-tools.ts';
import { readInitiativeBrief } from '../../store/initiatives.ts';
import type { ActivityContext } from '../activity-context.ts';

/** The section of a prompt about the initiative that a session has joined; empty: none, or it is gone. */
export async function joinedSection(
  { db }: Pick<ActivityContext, 'db'>,
  { user_id: userId, metadata }: { user_id: string; metadata: Readonly<Record<string, unknown>> },
): Promise<string> {
  const initiativeId = joinedInitiative(metadata);
  const brief: InitiativeBrief | undefined =
    initiativeId === null ? undefined : await readInitiativeBrief(db, { userId, initiativeId });
  return brief === undefined ? '' : initiativeSection(brief);
}
