import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import { joinedInitiative } from '../../agent/initiatives/initiative-tools.ts';
import { usableTokens } from '../../domain/compaction.ts';
import { noteContext } from '../../store/initiatives.ts';
import type { Claimed } from '../claims/claimed.ts';
import { type JudgedStep, windowInUse } from './window.ts';

/**
 * Of a session that works on an initiative: notes when half of its context is in use, and ends its work session when all is, so that
 * the next task begins another one. A failure only delays that to the next step.
 */
export async function noteContextOf({ context, claim, claimed, agent }: Claimed, judged: JudgedStep): Promise<void> {
  const initiativeId = joinedInitiative(claimed.metadata);
  if (agent.initiative === undefined || initiativeId === null) return;
  const settings = compactionOf(agent);
  const usable = usableTokens(judged.model, settings);
  try {
    const tokens = await windowInUse(judged.prompt, judged.reported, usable / 2);
    if (tokens === undefined) return;
    const isFull = tokens >= settings.compact_at * usable;
    const target = { userId: claimed.user_id, initiativeId, sessionId: claim.sessionId };
    const isNoted = await noteContext(context.db, target, { usage: Math.min(1, tokens / usable), isFull });
    if (isNoted) context.bus.publish({ session: initiativeId, kind: 'status' });
  } catch (err) {
    context.log.warn({ err, session: claim.sessionId }, 'the context in use was not noted in the initiative');
  }
}
