import type { Chat } from '@ai-sdk/react';
import type { UIMessage } from 'ai';
import type { SessionStatus } from '../domain/runs.ts';
import type { SessionApi, SessionState } from './api.ts';
import { Problem, wordsOf } from './problem.ts';
import type { Store } from './store.ts';
import { startAnew, type Tab } from './tab.ts';
import { isInFlight, joinPages, partQueued, stillWaiting } from './transcript.ts';
import type { View } from './view.ts';

const RETRY_MS = 1_000;

interface Deps {
  chat: Chat<UIMessage>;
  view: Store<View>;
  tab: Tab;
  api: SessionApi;
}

/**
 * Keeps chat and view in sync with the messages stored on the server, and joins an answer in flight.
 *
 * 1. Stored messages replace the shown ones only while no answer streams.
 * 2. One reading at a time; what changes meanwhile is read by the next one.
 * 3. A status or state from the feed is newer than one requested before it.
 */
export class ChatSync {
  private readonly deps: Deps;
  /** Messages whose whole answer arrives through the chat's own request. */
  private readonly own = new Set<string>();
  /** The answer that was joined and streams, or is being joined. */
  private joined: { messageId: string | undefined } | undefined;
  /** Stored messages have to be read. */
  private isBehind = false;
  /** Numbers of updates from the feed. */
  private readonly updates = { status: 0, state: 0 };
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
    if (isAbort) this.own.clear();
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
    this.updates.status += 1;
    this.deps.view.update({ status });
  }

  /** The feed reported a state. */
  stateChanged(state: SessionState): void {
    this.updates.state += 1;
    this.deps.view.update(state);
  }

  /** The feed reported that the turn of a message has started. */
  turnStarted(messageId: string): void {
    if (this.own.has(messageId)) return;
    // If the next turn's answer was joined instead, its question must be shown before it.
    if (this.joined && this.joined.messageId !== messageId) this.stopReading();
    void this.catchUp();
  }

  /** The feed reported that the turn of a message has finished. */
  turnFinished(messageId: string): void {
    // A reading in progress may have missed the end of the answer.
    if (!this.own.delete(messageId) || this.reading !== undefined) void this.catchUp();
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
    while (this.isBehind && !this.isStreaming) {
      this.isBehind = false;
      try {
        await this.readStored();
      } catch (error) {
        if (error instanceof Problem) this.readingFailed(error);
        // While the feed is connected, no reconnect will trigger another reading.
        else if (!this.deps.view.get().lost) this.catchUpLater();
      }
    }
  }

  /** The feed shows and repairs lost connections, and the sign-in form handles 401. */
  private readingFailed(problem: Problem): void {
    if (problem.status === 404) return startAnew();
    if (problem.status >= 500) this.catchUpLater();
    else if (problem.status !== 401) this.deps.view.update({ notice: wordsOf(problem) });
  }

  private catchUpLater(): void {
    setTimeout(() => void this.catchUp(), RETRY_MS);
  }

  private async readStored(): Promise<void> {
    const { api, chat, view } = this.deps;
    const before = { ...this.updates };
    // Messages are read after the status, so that they include the question of the answer in flight.
    const { session, status: read } = await api.session();
    const { items, next } = await api.messages();
    if (this.isStreaming) {
      this.isBehind = true;
      return;
    }
    const { phase, project_id, pending_tool } = session;
    if (before.state === this.updates.state) view.update({ phase, project_id, pending_tool });
    if (before.status === this.updates.status) view.update({ status: read });
    const { waiting, earlier, status } = view.get();
    const { said, queued } = partQueued(items, status);
    const { messages, joined } = joinPages(chat.messages, said);
    chat.messages = messages;
    view.update({ waiting: stillWaiting(waiting, said, queued), earlier: joined ? earlier : next, loaded: true });
    if (status.state !== read.state || status.message_id !== read.message_id) this.isBehind = true;
    else if (!this.isBehind && isInFlight(status)) void this.join(status.message_id);
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
