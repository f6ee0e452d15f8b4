// Compactions and prunes of a session's rows, as the worker stores them.
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import type { Usage } from '../../domain/usage.ts';
import { claimCompaction, finishCompaction, storeCompaction, storePrune, viewByHand } from '../../store/compaction.ts';
import { viewMessages } from '../../store/view-messages.ts';
import { call, type Session } from './session.ts';

/** What a summary has cost; not used: it is kept only for that. */
export interface Paid {
  usage?: Partial<Usage>;
  cost?: number | null;
  isUsed?: boolean;
  text?: string;
}

const NONE: Usage = { input: 0, output: 0, reasoning: 0, cache_read: 0, cache_write: 0 };

/**
 * Summarizes what comes before the newest turn, in a run that is a turn or by hand.
 * @returns the id of the summary's message; undefined: there is nothing to summarize
 */
export async function summarize(session: Session, run: number, fence: Fence, paid: Paid = {}) {
  const { usage = {}, cost = null, isUsed = true, text = 'They talked.' } = paid;
  const mine = { sessionId: session.id, runSeq: run, fence };
  const claimed = await claimCompaction(session.db, mine, Date.now());
  if (claimed.kind !== 'claimed') throw new Error(`the run cannot be compacted: ${claimed.kind}`);
  const users = viewMessages(claimed.view ?? []).filter(({ id, role }) => role === 'user' && id !== claimed.message_id);
  const tail = users.at(-1);
  if (tail === undefined || users.length < 2) return undefined;
  const whole = { ...NONE, ...usage };
  const step = { usage: whole, model: 'test/model', finish_reason: 'stop', ...(cost !== null && { cost_usd: cost }) };
  const id = claimed.message_id === null && isUsed ? claimed.answer_id : newId('msg');
  const made = {
    message_id: id,
    part_id: newId('prt'),
    metadata: { usage: whole, steps: [step] },
    type: 'data-compaction' as const,
    data: { summary: text, tail_start_id: tail.id, auto: false, summary_tokens: 3, turns: 1 },
    usage: whole,
    ...(cost !== null && { cost_usd: cost }),
    ...(!isUsed && { discarded: true as const }),
  };
  await storeCompaction(session.db, mine, made, { state: isUsed ? 'summarized' : 'failed' });
  return id;
}

/** Compacts by hand. @returns as `summarize` */
export async function compact(session: Session, paid: Paid = {}): Promise<string | undefined> {
  const found = await viewByHand(session.db, session.id);
  const users = viewMessages(found?.view ?? []).filter(({ role }) => role === 'user');
  const judged = { newest_run: found?.newest_run ?? null, nothing: users.length < 2 };
  const { ok, run_seq } = await session.apply('compact', judged);
  if (ok !== true) return undefined;
  const run = run_seq as number;
  const fence: Fence = [0, run * 100, 1];
  const made = await summarize(session, run, fence, paid);
  await finishCompaction(session.db, { sessionId: session.id, runSeq: run, fence });
  return made;
}

/** Prunes an output by hand, whatever there is to prune. @returns the id of the prune's message */
export async function pruneByHand(session: Session, callId?: string): Promise<string> {
  const { outcome } = await call<{ outcome: { run_seq: number } }>(session.db, 'open_hand_run', [session.id, 'prune']);
  const run = outcome.run_seq;
  const fence: Fence = [0, run * 100, 1];
  const made = await prune(session, run, fence, callId);
  await finishCompaction(session.db, { sessionId: session.id, runSeq: run, fence });
  return made;
}

/** Stores a prune of an output in a claimed run. @returns the id of its message */
export async function prune(session: Session, run: number, fence: Fence, callId = 'call_1'): Promise<string> {
  const data = { outputs: [{ tool_call_id: callId, tokens: 20 }], tokens: 20, auto: true };
  const made = { message_id: newId('msg'), part_id: newId('prt'), metadata: {}, type: 'data-prune' as const, data };
  const mine = { sessionId: session.id, runSeq: run, fence };
  const claimed = await claimCompaction(session.db, mine, Date.now());
  if (claimed.kind !== 'claimed') throw new Error(`the run cannot be pruned: ${claimed.kind}`);
  await storePrune(session.db, mine, made, { state: 'pruned', tokens: 20 });
  return made.message_id;
}
