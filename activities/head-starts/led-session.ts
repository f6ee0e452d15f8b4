import type { StepArgs, StepOutcome, ToolArgs, ToolCallRef, ToolOutcome } from '../../domain/activities.ts';
import type { TurnPosition } from '../../domain/turn-loop.ts';
import type { Attempt } from '../claims/attempt.ts';
import type { RunStop } from '../claims/run-stop.ts';

// What a worker knows of a session that it leads (head-starts.ts).

/** Outcome of a step or tool call, and its arguments. */
export type StepOrToolOutcome = StepOutcome | ToolOutcome;
export type StepOrToolArgs = StepArgs | ToolArgs;

/** A step or tool call that has begun before its activity. */
export interface HeadStart {
  run: number;
  attempt: Attempt;
  outcome: Promise<StepOrToolOutcome>;
}

/** A session whose workflow this process has in its cache, or that it leads by its row. */
export interface LedSession {
  sessionId: string;
  /** Ends the lead of a session whose workflow is in no cache; undefined: its workflow has come. */
  byRow: NodeJS.Timeout | undefined;
  epoch: number;
  /** The greatest ordinal that the workflow has used, and the greatest of the current run, which head starts may lead. */
  used: number;
  ordinal: number;
  /** The newest run that was begun, here or by an activity. */
  newestRun: number;
  /** Accepted runs that have not begun. */
  waiting: Set<number>;
  /** Units in progress, of activities and head starts. */
  active: number;
  /** Where the newest run stands, if this process knows. */
  at: ({ run: number } & TurnPosition<ToolCallRef>) | undefined;
  /** Head starts that no activity has adopted, by unit. */
  begun: Map<string, HeadStart>;
}

/** A session at an epoch. @param begun head starts that no activity has adopted */
export function ledSession(sessionId: string, epoch: number, begun = new Map<string, HeadStart>()): LedSession {
  return {
    ...{ sessionId, epoch, begun, used: 0, ordinal: 0, newestRun: 0, active: 0 },
    ...{ byRow: undefined, waiting: new Set(), at: undefined },
  };
}

/**
 * Takes an activity's head start, if there is one, from those of its run. Earlier ones, whose activities ran elsewhere, go,
 * too: what is left comes after it.
 */
export function takeHeadStart({ begun }: LedSession, args: StepOrToolArgs): HeadStart | undefined {
  const key = keyOf(args);
  const found = begun.get(key);
  for (const [each, { run }] of begun) {
    if (run === args.run_seq) begun.delete(each);
    if (each === key) break;
  }
  return found;
}

/** Number of units of the newest run that wait for their activity. */
export function aheadOf({ begun, newestRun }: LedSession): number {
  return begun
    .values()
    .filter(({ run }) => run === newestRun)
    .toArray().length;
}

/** The attempt at a unit under the fence of its arguments; 0 is the number of a head start's. */
export function attemptOf(
  { session_id, run_seq, epoch, ordinal }: StepOrToolArgs,
  number: number,
  stop: RunStop,
): Attempt {
  return { number, claim: { sessionId: session_id, runSeq: run_seq, fence: [epoch, ordinal, number] }, stop };
}

/** Whether they are the arguments of a tool call. */
export function isTool(args: StepOrToolArgs): args is ToolArgs {
  return 'tool_call_id' in args;
}

/** Identifies a unit in its session. Retries of a step, and the second part of a call that was begun, are never led. */
export function keyOf(args: StepOrToolArgs): string {
  if (isTool(args)) return `${args.run_seq}/${args.tool_call_id}${args.begun ? '/begun' : ''}`;
  return `${args.run_seq}/${args.step}/${args.attempt}`;
}

/**
 * Whether an activity returns the outcome of its head start; other outcomes are answers to the head start's claim. If a call waited
 * then, what it waits for may have come since, and the workflow was told before it scheduled this activity: it looks again.
 */
export function isAdoptable({ kind }: StepOrToolOutcome, args: StepOrToolArgs): boolean {
  if (kind === 'compact') return !isTool(args) && args.compaction === 'ask';
  return kind === 'settled' || kind === 'retry' || kind === 'ended';
}
