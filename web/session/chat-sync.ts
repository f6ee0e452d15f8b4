import type { Chat } from '@ai-sdk/react';
import type { UIMessage } from 'ai';
import type { SessionStatus } from '../../domain/runs.ts';
import type { SessionAnswer, SessionApi, SessionFacts } from '../api/api.ts';
import { ProblemError, wordsOf } from '../api/problem.ts';
import type { Store } from '../lib/store.ts';
import { heldCall, isInFlight, joinPages, partQueued, stillWaiting } from '../transcript/transcript.ts';
import type { Tab } from './tab.ts';
import type { View } from './view.ts';

const RETRY_MS = 1_000;

interface Deps {
  chat: Chat<UIMessage>;
  view: Store<View>;
  tab: Tab;
  api: SessionApi;
  /** The page no longer shows the session. */
  closed: AbortSignal;
  /** The server has no such session any more. */
  gone(): void;
}

/**
 * Keeps chat and view in sync with the messages stored on the server, and joins an answer in flight.
 *
 * 1. Stored messages replace the shown ones only while no answer streams.
 * 2. One reading at a time; what changes meanwhile is read by the next one.
 * 3. What the feed, a command or a newer reading has said of status or state is newer than what was requested before it.
 */
export class ChatSync {
  private readonly deps: Deps;
  /** Messages whose whole answer arrives through the chat's own request. */
  private readonly own = new Set<string>();
  /** The answer that was joined and streams, or is being joined. */
  private joined: { messageId: string | undefined } | undefined;
  /** Stored messages have to be read. */
  private isBehind = false;
  /** The last number given to a reading at its beginning, or to news at its arrival. */
  private lastNumber = 0;
  /** The numbers of what the view has. */
  private readonly newest = { status: 0, session: 0, row: 0 };
  private reading: Promise<void> | undefined;

  constructor(deps: Deps) {
    this.deps = deps;
  }

  get isStreaming(): boolean {
    const { status } = this.deps.chat;
    return status === 'submitted' || status === 'streaming' || this.joined !== undefined;
  }

  /** The chat sends a message itself. */
  sending(messageId: string): void {
    this.own.add(messageId);
  }

  /** The chat's own request did not send the message. */
  notSent(messageId: string): void {
    this.own.delete(messageId);
  }

  /** The chat's stream failed. */
  streamFailed(): void {
    this.own.clear();
    this.isBehind ||= this.deps.tab.opened;
    // The delay prevents a tight loop.
    setTimeout(() => void this.keepUp(), RETRY_MS);
  }

  /** The chat's stream ended; after an error `streamFailed` was called, too. */
  streamEnded({ isAbort, isError }: { isAbort: boolean; isError: boolean }): void {
    // It ended with a question: what follows comes in another stream, perhaps at once.
    const isHeld = heldCall(this.deps.chat.messages, { state: 'waiting' }) !== undefined;
    this.isBehind ||= isHeld;
    if (isAbort || isHeld) this.own.clear();
    // The chat updates its state after this callback has returned.
    if (!isError) setTimeout(() => void this.keepUp());
  }

  /** Stops reading an answer, but does not cancel the request of a message that may not have arrived yet. */
  stopReading(): void {
    const { chat, tab } = this.deps;
    if (tab.opened && (chat.status === 'streaming' || this.joined)) void chat.stop();
  }

  /** The feed reported a status. */
  statusChanged(status: SessionStatus): void {
    const { state, message_id } = this.deps.view.get().status;
    this.newest.status = this.nextNumber();
    this.deps.view.update({ status });
    if ((state === 'waiting') === (status.state === 'waiting')) return;
    // The answer's stream ends with the question. Whoever answers it, what follows comes in another one.
    if (message_id !== undefined) this.own.delete(message_id);
    void this.catchUp();
  }

  /** The feed reported a state. */
  sessionChanged(session: SessionFacts): void {
    this.readAfter(() => this.sessionKnown(session));
  }

  /** A command has said it, or what the user sends makes it so. A reading in progress is too old for this, and so for the rest. */
  known(facts: Partial<SessionFacts>): void {
    this.isBehind ||= this.reading !== undefined;
    this.sessionKnown(facts);
  }

  /**
   * Reads the session's row: its cost, window and model, and what the feed does not tell when it connects, since messages are not
   * read while an answer streams; or that there is no such session any more.
   */
  async readSession(): Promise<void> {
    // A reading in progress has it, too.
    if (this.reading !== undefined && !this.isStreaming) return;
    const number = this.nextNumber();
    const read = await this.deps.api.session().catch((error: unknown) => {
      const isGone = error instanceof ProblemError && error.code === 'SessionNotFound';
      if (isGone && !this.deps.closed.aborted) this.deps.gone();
      return undefined;
    });
    if (read === undefined) return;
    this.readAfter(() => this.sessionRead(read, number));
    this.rowRead(read, number);
  }

  /** The feed reported that the turn of a message has started. */
  turnStarted(messageId: string): void {
    if (this.own.has(messageId)) return;
    // If the next turn's answer was joined instead, its question must be shown before it.
    if (this.joined && this.joined.messageId !== messageId) this.stopReading();
    void this.catchUp();
  }

  /** The feed reported that the turn of a message has finished. */
  turnFinished(messageId: string, outcome: 'finish' | 'abort' | 'error'): void {
    // A reading in progress may have missed the end of the answer. How a turn failed is in the stored messages only.
    if (!this.own.delete(messageId) || this.reading !== undefined || outcome !== 'finish') void this.catchUp();
  }

  /** Reads the stored messages, now or after the streaming answer, and joins an answer in flight. */
  catchUp(): Promise<void> {
    this.isBehind = true;
    return this.keepUp();
  }

  private keepUp(): Promise<void> {
    this.reading ??= this.readWhileBehind().finally(() => (this.reading = undefined));
    return this.reading;
  }

  private async readWhileBehind(): Promise<void> {
    const { closed } = this.deps;
    while (!closed.aborted && this.isBehind && !this.isStreaming) {
      this.isBehind = false;
      try {
        await this.readStored();
      } catch (error) {
        if (closed.aborted) return;
        if (error instanceof ProblemError) this.readingFailed(error);
        // While the feed is connected, no reconnect will trigger another reading.
        else if (!this.deps.view.get().lost) this.catchUpLater();
      }
    }
  }

  /** The feed shows and repairs lost connections, and the sign-in form handles 401. */
  private readingFailed(problem: ProblemError): void {
    if (problem.status === 404) return this.deps.gone();
    if (problem.status >= 500) this.catchUpLater();
    else if (problem.status !== 401) this.deps.view.update({ notice: wordsOf(problem) });
  }

  private catchUpLater(): void {
    setTimeout(() => void this.catchUp(), RETRY_MS);
  }

  private async readStored(): Promise<void> {
    const { api, chat, view, closed } = this.deps;
    const number = this.nextNumber();
    // Messages are read after the status, so that they include the question of the answer in flight.
    const answer = await api.session();
    const { items, next } = await api.messages();
    if (closed.aborted) return;
    if (this.isStreaming) {
      this.isBehind = true;
      return;
    }
    const { chat: settings, status: read } = answer;
    this.sessionRead(answer, number);
    this.rowRead(answer, number);
    if (number > this.newest.status) view.update({ status: read });
    const { waiting, earlier, status, gone_back_to } = view.get();
    // A message that was gone back to is not queued, whatever the turn before it has ended with; and then none is.
    const { said, queued } = gone_back_to === null ? partQueued(items, status) : { said: items, queued: [] };
    const { messages, joined } = joinPages(chat.messages, said);
    chat.messages = messages;
    view.update({ waiting: stillWaiting(waiting, said, queued), earlier: joined ? earlier : next, loaded: true });
    const { initiative_id: initiative } = settings.metadata;
    view.update({
      agent: settings.agent,
      parent: settings.parent_id,
      isChild: settings.depth > 0,
      initiative: typeof initiative === 'string' ? initiative : null,
    });
    if (status.state !== read.state || status.message_id !== read.message_id) this.isBehind = true;
    else if (!this.isBehind && this.isToJoin()) void this.join(status.message_id);
  }

  /** What the feed never tells, unless a later reading has it. */
  private rowRead({ chat, title, window = null }: SessionAnswer, number: number): void {
    if (number < this.newest.row) return;
    this.newest.row = number;
    this.deps.view.update({ cost: chat.cost_usd, lastModel: chat.model, title, window });
  }

  private sessionKnown(facts: Partial<SessionFacts>): void {
    this.newest.session = this.nextNumber();
    this.deps.view.update(facts);
  }

  private nextNumber(): number {
    this.lastNumber += 1;
    return this.lastNumber;
  }

  private sessionRead({ session, gone_back_to = null }: SessionAnswer, number: number): void {
    if (number < this.newest.session) return;
    this.newest.session = number;
    const { phase, project_id, pending_tool } = session;
    this.deps.view.update({ phase, project_id, pending_tool, gone_back_to });
  }

  /** A rewind, its undoing, or what makes it final has hidden messages, or shows them again. */
  private readAfter(change: () => void): void {
    const { gone_back_to } = this.deps.view.get();
    change();
    if (this.deps.view.get().gone_back_to !== gone_back_to) void this.catchUp();
  }

  /** There is an answer in flight that brings more than what is stored: not in a hidden tab, and not while it waits. */
  private isToJoin(): boolean {
    const { status } = this.deps.view.get();
    if (document.visibilityState === 'hidden' || !isInFlight(status)) return false;
    if (status.state !== 'waiting') return true;
    // While subagents ask, the session's own answer may go on.
    const goesOn = status.questions !== undefined && status.message_id !== undefined;
    return goesOn && heldCall(this.deps.chat.messages, status) === undefined;
  }

  /** Joins the answer in flight. If it has ended meanwhile, the feed reports that and its end is read. */
  private async join(messageId: string | undefined): Promise<void> {
    this.own.clear();
    this.joined = { messageId };
    await this.deps.chat.resumeStream();
    this.joined = undefined;
    if (this.deps.chat.status !== 'error') void this.keepUp();
  }
}
