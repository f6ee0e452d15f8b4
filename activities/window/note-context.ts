import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import { joinedInitiative } from '../../agent/initiatives/initiative-tools.ts';
import { usableTokens } from '../../domain/compaction.ts';
import { type NewestWorkSession, newestWorkSession, noteContext } from '../../store/initiatives.ts';
import type { Claimed } from '../claims/claimed.ts';
import { type JudgedStep, windowInUse } from './window.ts';

/**
 * Of a session that works on an initiative: notes how much of its context is in use, from half of it or from its limit on, and ends its
 * work session at the limit. A failure only delays that to the next step.
 *
 * @returns what the model has to know, from then on until it has another work session: others may be given its tasks
 */
export async function noteContextOf(
  { context, claim, claimed, agent }: Claimed,
  judged: JudgedStep,
): Promise<string | undefined> {
  const initiativeId = joinedInitiative(claimed.metadata);
  if (agent.initiative === undefined || initiativeId === null) return undefined;
  const target = { userId: claimed.user_id, initiativeId, sessionId: claim.sessionId };
  try {
    const work = await newestWorkSession(context.db, target);
    if (work?.is_active !== true) return work?.is_full === true ? handedOff(work.id) : undefined;
    const used = await contextInUse(judged, work);
    if (used === undefined) return undefined;
    const isNoted = await noteContext(context.db, target, used);
    if (isNoted) context.bus.publish({ session: initiativeId, kind: 'status' });
    return isNoted && used.isFull ? handedOff(work.id) : undefined;
  } catch (err) {
    context.log.warn({ err, session: claim.sessionId }, 'the context in use was not noted in the initiative');
    return undefined;
  }
}

/**
 * Undefined: less than half, and than the limit, and nothing was noted, nor was the one before it full; or what was noted still holds,
 * to the tenth, and as to the limit.
 */
async function contextInUse(
  { agent, model, prompt, reported }: JudgedStep,
  { context_usage: noted, usage_before }: NewestWorkSession,
): Promise<{ usage: number; isFull: boolean } | undefined> {
  const settings = compactionOf(agent);
  const usable = usableTokens(model, settings);
  const fullAt = settings.compact_at * usable;
  // Nothing has made it shorter since: the next work session would be no better.
  const wasFull = (noted ?? usage_before ?? 0) * usable >= fullAt;
  const least = noted === null && !wasFull ? Math.min(usable / 2, fullAt) : 0;
  const tokens = await windowInUse(prompt, reported, least);
  if (tokens === undefined) return undefined;
  const usage = Math.min(1, tokens / usable);
  const isFull = tokens >= fullAt;
  const isAsNoted = isFull === wasFull && tenths(usage) === tenths(noted);
  return isAsNoted ? undefined : { usage, isFull: isFull && !wasFull };
}

/** In tenths: each note is another version of STATE.md, and edits of the one before are refused. */
function tenths(usage: number | null): number | null {
  return usage === null ? null : Math.floor(usage * 10);
}

function handedOff(workSession: string): string {
  return (
    `[The limit of your context was reached, so your work session ${workSession} has ended. Tasks that it held and had not completed ` +
    'are open again, and others may be at work on them: leave them, and their files, unless you are given one of them again.]'
  );
}
