import { type FileUIPart, isToolUIPart, type UIMessage } from 'ai';
import type { SessionStatus } from '../../domain/runs.ts';
import { turnEndOf } from './turns.ts';

/** A message whose turn has not started. */
export interface Waiting {
  message: UIMessage;
  /**
   * sending: not known to have arrived; queued: accepted by the server; doubtful: was queued, but the server may have dropped it
   * since; refused: refused by the server.
   */
  state: 'sending' | 'queued' | 'doubtful' | 'refused';
  /** Why it has not arrived. */
  reason?: string;
}

/** True if the server has to be asked about the message yet. */
export function isUnsent({ state }: Waiting): boolean {
  return state === 'sending' || state === 'doubtful';
}

/** True if the server has accepted the message. */
export function isQueued({ state }: Waiting): boolean {
  return state === 'queued' || state === 'doubtful';
}

/** True if a turn is running, retrying or waiting for an answer. */
export function isInFlight({ state }: SessionStatus): boolean {
  return state === 'busy' || state === 'retrying' || state === 'waiting';
}

/**
 * The message whose answer the user means to stop: the last one that is shown, or what the server is busy with without it being
 * shown, such as a compaction. Undefined: the server may not have the message yet.
 * @param now.isSubmitted the last message is on its way to the server
 */
export function messageToStop(now: {
  messages: readonly UIMessage[];
  waiting: readonly Waiting[];
  status: SessionStatus;
  isSubmitted: boolean;
}): string | undefined {
  const { messages, waiting, status, isSubmitted } = now;
  const busy = isInFlight(status) ? status.message_id : undefined;
  const known = [...messages, ...waiting.map(({ message }) => message)];
  if (busy !== undefined && known.every(({ id }) => id !== busy)) return busy;
  const shown = messages.findLast(({ role }) => role === 'user')?.id;
  return isSubmitted && shown !== busy ? undefined : shown;
}

/** The tool call that a turn waits for. */
export interface HeldCall {
  toolCallId: string;
  /** Who is to act: the user, or a page that carries out the call. */
  by: 'user' | 'page';
}

/** The tool call that the turn waits for; undefined: it does not wait, or only subagents do, or its call is not known. */
export function heldCall(messages: readonly UIMessage[], status: SessionStatus): HeldCall | undefined {
  const { state, questions } = status;
  const last = messages.at(-1);
  if (state !== 'waiting' || last?.role !== 'assistant') return undefined;
  const step = last.parts.slice(last.parts.findLastIndex(({ type }) => type === 'step-start') + 1);
  const call = step.filter((part) => isToolUIPart(part)).find((part) => !isEndedCall(part));
  if (call === undefined) return undefined;
  const by = call.state === 'approval-requested' ? 'user' : 'page';
  // While a subagent asks, a call of this turn may as well be running.
  return by === 'page' && questions !== undefined ? undefined : { toolCallId: call.toolCallId, by };
}

/** True if a tool call has its outcome. */
export function isEndedCall(part: { state: string; preliminary?: boolean | undefined }): boolean {
  return part.state.startsWith('output-') && part.preliminary !== true;
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
  if (status.state !== 'error') return messages.length;
  // An error stops the queue after the failed message, which may have no answer. A rewind may have hidden that: then none is queued.
  const begun = messages.findLastIndex((message) => message.role === 'assistant' || turnEndOf(message) !== undefined);
  const asked = messages.slice(0, begun + 1).findLast(({ role }) => role === 'user');
  return turnEndOf(asked)?.state === 'error' ? begun + 1 : messages.length;
}

/** The waiting messages: those queued at the server, and those it does not know yet. */
export function stillWaiting(waiting: Waiting[], said: UIMessage[], queued: UIMessage[]): Waiting[] {
  const known = new Set([...said, ...queued].map((message) => message.id));
  return [
    ...queued.map((message): Waiting => ({ message, state: 'queued' })),
    ...waiting.filter(({ message, state }) => state !== 'queued' && !known.has(message.id)),
  ];
}

/**
 * Replaces the end of the shown messages by the last stored page; earlier ones are kept if the page overlaps them. A summary
 * that was streamed stands after the messages that it comes before in the page: then the page counts alone.
 */
export function joinPages(shown: UIMessage[], last: UIMessage[]): { messages: UIMessage[]; joined: boolean } {
  const at = shown.findIndex((message) => message.id === last[0]?.id);
  const before = shown.slice(0, Math.max(0, at));
  const isMoved = before.some(({ id }) => last.some((message) => message.id === id));
  return at < 0 || isMoved ? { messages: last, joined: false } : { messages: [...before, ...last], joined: true };
}

/** True if the message has the result of a subagent that works in the background. */
export function isFromTask({ metadata }: UIMessage): boolean {
  return (metadata as { origin?: unknown } | undefined)?.origin === 'task';
}

/** The text of a message. */
export function messageText(message: UIMessage): string {
  return message.parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

/** The files of a message. */
export function filesOf(message: UIMessage): FileUIPart[] {
  return message.parts.flatMap((part) => (part.type === 'file' ? [part] : []));
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
    return isToolUIPart(part) || ['file', 'data-interrupted', 'data-compaction'].includes(part.type);
  });
}
