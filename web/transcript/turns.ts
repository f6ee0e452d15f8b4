import type { UIMessage } from 'ai';
import type { RunErrorCode } from '../../domain/runs.ts';

/** How the turn of a user message ended, if it was stopped or failed. */
export interface TurnEnd {
  state: 'aborted' | 'error';
  /** Of an error. */
  code?: RunErrorCode;
  /** What went wrong and what to do. */
  message?: string;
}

/** A message with its turn: a user message and the answers to it. */
export interface Placed {
  message: UIMessage;
  /** The user message of its turn; undefined: it is not loaded. */
  asked: UIMessage | undefined;
  /** The last message before its turn; undefined: there is none. */
  before: UIMessage | undefined;
  /** Set at the last message of a turn that was stopped or failed. */
  end: TurnEnd | undefined;
  /** Its turn is the newest one. */
  isNewest: boolean;
}

/** Messages in order, with their turns. */
export function placed(messages: readonly UIMessage[]): Placed[] {
  const newest = messages.findLastIndex(({ role }) => role === 'user');
  let asked: UIMessage | undefined;
  let before: UIMessage | undefined;
  return messages.map((message, index) => {
    if (message.role === 'user') [asked, before] = [message, messages[index - 1]];
    const isLast = messages[index + 1]?.role !== 'assistant';
    return { message, asked, before, end: isLast ? turnEndOf(asked) : undefined, isNewest: index >= newest };
  });
}

/** How the turn of a user message ended, unless it was answered. */
export function turnEndOf(message: UIMessage | undefined): TurnEnd | undefined {
  return (message?.metadata as { turn?: TurnEnd } | undefined)?.turn;
}

/** What helps after an error. */
export type WayOut = 'retry' | 'model' | 'edit' | 'branch' | 'compact';

const WAYS_OUT: Partial<Record<RunErrorCode, readonly WayOut[]>> = {
  // A retry: with another model, or once what was wrong is put right.
  ModelNotConfigured: ['model', 'retry'],
  ProviderUnauthorized: ['retry', 'model'],
  EmptyAnswer: ['retry', 'model'],
  ProviderRejected: ['retry', 'edit', 'model', 'branch'],
  UnreadableAnswer: ['retry', 'edit', 'model', 'branch'],
  ContentFilter: ['edit', 'retry', 'model', 'branch'],
  ContextTooLong: ['compact', 'branch', 'edit', 'model', 'retry'],
};

/** What helps after a turn that ended like this, the most helpful first. */
export function waysOut({ code }: TurnEnd): readonly WayOut[] {
  return (code && WAYS_OUT[code]) ?? ['retry'];
}
