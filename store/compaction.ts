import { z } from 'zod';
import type { CompactionData, PruneData } from '../domain/compaction.ts';
import type { Usage } from '../domain/usage.ts';
import { call, type Db, jsonb, maybe } from './db.ts';
import { ended, lost, notBegun, underway } from './results.ts';
import { callClaimed, type Claim } from './runs.ts';
import { viewPart } from './view-messages.ts';

const RESULTS = ['summarized', 'pruned', 'none', 'failed'] as const;

const claimed = z.object({
  kind: z.literal('claimed'),
  agent: z.string(),
  model: z.string().nullable(),
  /** The message that is being answered; null: a run by hand. */
  message_id: z.string().nullable(),
  answer_id: z.string(),
  /** How long ago the run began, in milliseconds, by Postgres' clock. */
  elapsed_ms: z.number(),
  /** What the model sees of the conversation; if it has more than 32 MiB, its beginning for a run by hand, else null. */
  view: z.array(viewPart).nullable(),
});
const repeated = z.object({
  kind: z.literal('compacted'),
  result: z.enum(RESULTS),
  by_hand: z.boolean(),
  warning: z.string().nullable(),
});
const claim = z.discriminatedUnion('kind', [claimed, repeated, underway, ...notBegun]);

/** A run whose conversation is to be compacted. */
export type ClaimedCompaction = z.infer<typeof claimed>;

/** Claims a run to compact its conversation, unless this was done under its fence, or it may not begin now. */
export function claimCompaction(db: Db, mine: Claim, startedAt: number): Promise<z.infer<typeof claim>> {
  return callClaimed(db, claim, 'claim_compaction', mine, [startedAt]);
}

/** What a compaction came to, as in chat_runs.compaction. */
export interface CompactionNote {
  state: 'running' | (typeof RESULTS)[number];
  turns?: number;
  /** Tokens that it has freed. */
  tokens?: number;
  /** For the user: what did not go as it should. */
  warning?: string;
}

/** Records what a compaction comes to. False: another attempt has the run. */
export function noteCompaction(db: Db, mine: Claim, note: CompactionNote): Promise<boolean> {
  return callClaimed(db, z.boolean(), 'note_compaction', mine, [jsonb(note)]);
}

/** A message that a compaction or prune adds. */
interface Made<Type extends string, Data> {
  message_id: string;
  part_id: string;
  metadata: object;
  type: Type;
  data: Data;
}

/** A summary with what it has cost; `discarded`: it is kept only for that. */
export type MadeSummary = Made<'data-compaction', CompactionData> & {
  usage: Usage;
  cost_usd?: number | undefined;
  discarded?: true;
};

/** Which tool outputs the model no longer sees. */
export type MadePrune = Made<'data-prune', PruneData>;

/** Stores a summary, hides what it replaces, and stores a prune, if any, at once. False: another attempt has the run. */
export function storeCompaction(
  db: Db,
  mine: Claim,
  made: MadeSummary,
  note: CompactionNote,
  prune?: MadePrune,
): Promise<boolean> {
  const also = prune === undefined ? null : jsonb(prune);
  return callClaimed(db, z.boolean(), 'store_compaction', mine, [jsonb(made), jsonb(note), also]);
}

/** Stores a prune. False: another attempt has the run. */
export function storePrune(db: Db, mine: Claim, made: MadePrune, note: CompactionNote): Promise<boolean> {
  return callClaimed(db, z.boolean(), 'store_prune', mine, [jsonb(made), jsonb(note)]);
}

/** Ends a run by hand. */
export function finishCompaction(db: Db, mine: Claim): Promise<z.infer<typeof ended> | { kind: 'lost' }> {
  return callClaimed(db, z.discriminatedUnion('kind', [ended, lost]), 'finish_compaction', mine, []);
}

/** Gives the session and its queue the former model back, unless another one was chosen by now. False: another attempt has the run. */
export function undoSwitch(db: Db, mine: Claim, model: string): Promise<boolean> {
  return callClaimed(db, z.boolean(), 'undo_switch', mine, [model]);
}

const toCount = z.object({ view: z.array(viewPart), sections: z.array(z.string()).nullable(), event_seq: z.number() });

/**
 * What the model sees of a conversation whose window no step has reported since it has changed; undefined: a step has, or it has
 * more than 32 MiB. `event_seq` is for `keepCount`; `sections` are of the newest system prompt, null: none yet.
 */
export function windowToCount(db: Db, sessionId: string): Promise<z.infer<typeof toCount> | undefined> {
  return call(db, maybe(toCount), 'window_to_count', [sessionId]);
}

/** Keeps how many tokens were counted, for readers, unless an event was appended since `event_seq`. */
export async function keepCount(db: Db, sessionId: string, { eventSeq, tokens }: { eventSeq: number; tokens: number }) {
  await call(db, z.unknown(), 'keep_count', [sessionId, eventSeq, tokens]);
}

const byHand = z.object({
  agent: z.string(),
  model: z.string().nullable(),
  newest_run: z.number(),
  /** Of a conversation of more than 32 MiB its beginning. */
  view: z.array(viewPart),
});

/** What a run by hand would see of a conversation, and the number of the session's newest run. */
export type ViewByHand = z.infer<typeof byHand>;

/** What a run by hand would see now; undefined: a run is open, or there is no such session. */
export function viewByHand(db: Db, sessionId: string): Promise<ViewByHand | undefined> {
  return call(db, maybe(byHand), 'view_by_hand', [sessionId]);
}
