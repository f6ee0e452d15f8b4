import { isToolUIPart, type UIMessage } from 'ai';
import type { SessionStatus } from '../domain/runs.ts';

/** A message whose turn has not started. */
export interface Waiting {
  message: UIMessage;
  /** sending: not known to have arrived; queued: accepted by the server; refused: refused by the server. */
  state: 'sending' | 'queued' | 'refused';
  /** Why it has not arrived. */
  reason?: string;
}

/** True if a turn is running, retrying or waiting for an answer. */
export function isInFlight({ state }: SessionStatus): boolean {
  return state === 'busy' || state === 'retrying' || state === 'waiting';
}

/** Splits stored messages into those whose turn has started and those still queued. */
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
  // An error stops the queue. The failed message may have no answer, so it does not count as queued.
  const failed = messages.findLastIndex((message) => message.role === 'assistant') + 1;
  return status.state === 'error' ? failed + 1 : messages.length;
}

/** The waiting messages: those queued at the server, and those it does not know yet. */
export function stillWaiting(waiting: Waiting[], said: UIMessage[], queued: UIMessage[]): Waiting[] {
  const known = new Set([...said, ...queued].map((message) => message.id));
  return [
    ...queued.map((message): Waiting => ({ message, state: 'queued' })),
    ...waiting.filter(({ message, state }) => state !== 'queued' && !known.has(message.id)),
  ];
}

/** Replaces the end of the shown messages by the last stored page; earlier ones are kept if the page overlaps them. */
export function joinPages(shown: UIMessage[], last: UIMessage[]): { messages: UIMessage[]; joined: boolean } {
  const at = shown.findIndex((message) => message.id === last[0]?.id);
  return at < 0 ? { messages: last, joined: false } : { messages: [...shown.slice(0, at), ...last], joined: true };
}

/** The text of a message. */
export function textOf(message: UIMessage): string {
  return message.parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

/** Number of ended tool calls; each may have changed the workspace. */
export function countToolsEnded(messages: UIMessage[]): number {
  const parts = messages.flatMap((message) => message.parts).filter((part) => isToolUIPart(part));
  return parts.filter(({ state }) => state === 'output-available' || state === 'output-error').length;
}

/** True if the message has visible content. */
export function hasContent(message: UIMessage): boolean {
  return message.parts.some((part) => {
    if (part.type === 'text' || part.type === 'reasoning') return part.text !== '';
    return isToolUIPart(part) || part.type === 'file' || part.type === 'data-interrupted';
  });
}
