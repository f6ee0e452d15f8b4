import { isToolUIPart, type UIMessage } from 'ai';
import type { SessionStatus } from '../domain/runs.ts';

/** A message that no turn has begun to answer. */
export interface Waiting {
  message: UIMessage;
  /** sending: not known to have arrived; queued: the server has it; refused: it will not take it. */
  state: 'sending' | 'queued' | 'refused';
  /** Why it has not arrived. */
  reason?: string;
}

/** True where a turn is at work, tries again or waits for an answer. */
export function isInFlight({ state }: SessionStatus): boolean {
  return state === 'busy' || state === 'retrying' || state === 'waiting';
}

/** What the server has stored, parted into what is or was answered and what is still queued. */
export function partQueued(messages: UIMessage[], status: SessionStatus): { said: UIMessage[]; queued: UIMessage[] } {
  const from = firstQueued(messages, status);
  return { said: messages.slice(0, from), queued: messages.slice(from) };
}

function firstQueued(messages: UIMessage[], status: SessionStatus): number {
  if (isInFlight(status)) {
    const answered = messages.findIndex((message) => message.id === status.message_id);
    const next = messages.findIndex((message, index) => index > answered && message.role === 'user');
    return answered < 0 || next < 0 ? messages.length : next;
  }
  // An error holds the queue back. The message that failed may stand there without an answer, so it is not counted.
  const failed = messages.findLastIndex((message) => message.role === 'assistant') + 1;
  return status.state === 'error' ? failed + 1 : messages.length;
}

/** What waits, after the server said what is queued: that, and what it does not know of yet. */
export function stillWaiting(waiting: Waiting[], said: UIMessage[], queued: UIMessage[]): Waiting[] {
  const known = new Set([...said, ...queued].map((message) => message.id));
  return [
    ...queued.map((message): Waiting => ({ message, state: 'queued' })),
    ...waiting.filter(({ message, state }) => state !== 'queued' && !known.has(message.id)),
  ];
}

/** The last page of a transcript in the place of what it overlaps; earlier pages stay where they join. */
export function joinPages(shown: UIMessage[], last: UIMessage[]): { messages: UIMessage[]; joined: boolean } {
  const at = shown.findIndex((message) => message.id === last[0]?.id);
  return at < 0 ? { messages: last, joined: false } : { messages: [...shown.slice(0, at), ...last], joined: true };
}

/** The text of a message, as its author typed it. */
export function textOf(message: UIMessage): string {
  return message.parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

/** How many tool calls have ended: each may have changed what the session has built. */
export function countToolsEnded(messages: UIMessage[]): number {
  const parts = messages.flatMap((message) => message.parts).filter((part) => isToolUIPart(part));
  return parts.filter(({ state }) => state === 'output-available' || state === 'output-error').length;
}

/** True where there is something to be seen in a message. */
export function hasContent(message: UIMessage): boolean {
  return message.parts.some((part) => {
    if (part.type === 'text' || part.type === 'reasoning') return part.text !== '';
    return isToolUIPart(part) || part.type === 'file' || part.type === 'data-interrupted';
  });
}
