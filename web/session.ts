import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, generateId, type UIMessage } from 'ai';
import type { SessionStatus } from '../domain/runs.ts';
import { access } from './access.ts';
import { type CommandName, SessionApi, type SessionState } from './api.ts';
import { followSession } from './feed.ts';
import { Outbox } from './outbox.ts';
import { Problem, wordsOf } from './problem.ts';
import { type Shown, shownAt } from './shown.ts';
import { Store } from './store.ts';
import { forgetTab, type Tab } from './tab.ts';
import { isInFlight, joinPages, partQueued, stillWaiting, type Waiting } from './transcript.ts';

/** What the page shows besides the messages. */
export interface View extends SessionState {
  /** False until a session that was there before the page has been read. */
  loaded: boolean;
  /** The connection to the server broke and is tried again. */
  lost: boolean;
  status: SessionStatus;
  /** Messages that are not being answered yet, in order. */
  waiting: Waiting[];
  /** Where earlier messages begin that have not been loaded. */
  earlier: string | null;
  /** What the user asked for and did not get. */
  notice: string | null;
  /** The site that was built; null: there is none. Its address is another one whenever a file has changed. */
  preview: Shown | null;
}

const NOTHING: View = {
  phase: 'chatting',
  project_id: null,
  pending_tool: null,
  loaded: false,
  lost: false,
  status: { state: 'idle' },
  waiting: [],
  earlier: null,
  notice: null,
  preview: null,
};

const PAUSE_MS = 1_000;

/**
 * The tab's session: the AI SDK's chat and everything that is not in it.
 *
 * 1. A message is in `chat.messages` when it is or was being answered, else in `view.waiting`; never in both.
 * 2. One answer streams at a time. What is stored is put in its place only while none does.
 * 3. The page's own message in an idle session goes through the chat; everything else that happens, here or elsewhere,
 *    is learned from the feed and then read.
 */
export class TabSession {
  readonly chat: Chat<UIMessage>;
  readonly view = new Store<View>(NOTHING);
  private readonly tab: Tab;
  private readonly api: SessionApi;
  private readonly outbox: Outbox;
  private feed: ReturnType<typeof followSession> | undefined;
  /** Messages whose answers come through the chat's own request, to their end. */
  private readonly own = new Set<string>();
  /** The answer that is being joined, or was and streams. */
  private joined: { messageId: string | undefined } | undefined;
  private behind = false;
  /** How often the feed has told what the session is and does; what was asked for before is old. */
  private readonly told = { status: 0, state: 0 };
  /** The files that the preview shows, as they were told. */
  private shownFiles = '[]';
  private catchingUp: Promise<void> | undefined;

  constructor(tab: Tab) {
    this.tab = tab;
    this.api = new SessionApi(tab.id);
    this.chat = new Chat({
      id: tab.id,
      transport: new DefaultChatTransport({
        fetch: async (url, init) => {
          const response = await access.fetch(url, init);
          if (response.headers.has('x-perdure-session')) this.opened();
          return response;
        },
      }),
      onError: () => {
        this.own.clear();
        this.behind ||= this.tab.opened;
        // Not in a tight loop.
        setTimeout(() => void this.keepUp(), PAUSE_MS);
      },
      onFinish: ({ isAbort, isError }) => {
        if (isAbort) this.own.clear();
        // The chat is done with the answer once this has returned.
        if (!isError) setTimeout(() => void this.keepUp());
      },
    });
    this.outbox = new Outbox(this.view, {
      way: () => (access.isAsked ? 'none' : this.tab.opened ? 'queue' : this.isStreaming() ? 'none' : 'chat'),
      say: (message) => this.say(message),
      submit: (message) => this.api.submit(message),
      isSaid: (id) => this.chat.messages.some((message) => message.id === id),
    });
    this.outbox.restore(tab.unsent);
    this.keepUnsent();
    if (tab.opened) {
      void this.catchUp();
      this.follow();
    } else {
      this.view.update({ loaded: true });
      void access.knock();
    }
    document.addEventListener('visibilitychange', () => this.letGo());
    window.addEventListener('online', () => this.outbox.flush());
    access.onEntry(() => {
      this.view.update({ notice: null });
      this.outbox.flush();
      if (tab.opened) void this.catchUp();
    });
  }

  /** The name under which this tab knows its session. */
  get id(): string {
    return this.tab.id;
  }

  /** Sends what the user typed: at once, whatever else is going on. */
  send(text: string): void {
    const message: UIMessage = { id: generateId(), role: 'user', parts: [{ type: 'text', text }] };
    const { status, waiting } = this.view.get();
    this.view.update({ notice: null });
    if (this.isStreaming() || isInFlight(status) || waiting.length > 0) this.outbox.add(message);
    else void this.say(message);
  }

  /** Ends the answer in flight. */
  stop(): Promise<void> {
    return this.command('abort');
  }

  async command(name: CommandName): Promise<void> {
    await this.attempt(async () => {
      const { phase, project_id } = await this.api.command(name);
      this.view.update({ phase, project_id });
    });
  }

  /** Takes a message back that waits. */
  async takeBack({ message, state }: Waiting): Promise<void> {
    if (state !== 'queued') return this.outbox.remove(message.id);
    await this.attempt(async () => {
      await this.api.cancelQueued(message.id);
      this.outbox.remove(message.id);
    });
  }

  /** Puts the page of messages before those that are shown. */
  async showEarlier(): Promise<void> {
    const { earlier } = this.view.get();
    if (earlier === null) return;
    await this.attempt(async () => {
      const { items, next } = await this.api.messages(earlier);
      this.chat.messages = [...items, ...this.chat.messages];
      this.view.update({ earlier: next });
    });
  }

  /** Looks what the session has built. The preview stays as it is where nothing has changed, unless `again`. */
  async look({ again = false } = {}): Promise<void> {
    if (!this.tab.opened) return;
    try {
      const { items, preview_url, preview_site_url } = await this.api.files();
      const files = JSON.stringify(items);
      if (files === this.shownFiles && !again) return;
      this.shownFiles = files;
      this.view.update({ preview: preview_url === null ? null : await shownAt(preview_url, preview_site_url) });
    } catch (error) {
      // What was shown is still there; the next tool's output is the next occasion.
      if (again) this.view.update({ notice: wordsOf(error) });
    }
  }

  dismiss(): void {
    this.view.update({ notice: null });
  }

  /** Sends a message through the chat. One that was not accepted waits, to be sent again. */
  private async say(message: UIMessage): Promise<void> {
    this.own.add(message.id);
    await this.chat.sendMessage(message);
    const { status, error, lastMessage } = this.chat;
    if (status !== 'error' || lastMessage?.id !== message.id) return;
    this.own.delete(message.id);
    this.chat.messages = this.chat.messages.slice(0, -1);
    this.chat.clearError();
    this.outbox.failed(message, error);
  }

  /** A reload loses nothing that was typed. */
  private keepUnsent(): void {
    let kept = this.view.get().waiting;
    this.view.subscribe(() => {
      const { waiting } = this.view.get();
      if (waiting === kept) return;
      kept = waiting;
      this.tab.keepUnsent(waiting.filter(({ state }) => state === 'sending').map(({ message }) => message));
    });
  }

  /**
   * A tab that is not to be seen lets go of its answer, which goes on without it: connections are few. Once it is seen
   * again the feed connects, and what is stored is read and followed.
   */
  private letGo(): void {
    if (document.visibilityState === 'hidden') this.stopReading();
  }

  /** Hangs up on an answer, not on a message that may not have arrived yet. */
  private stopReading(): void {
    if (this.tab.opened && (this.chat.status === 'streaming' || this.joined)) void this.chat.stop();
  }

  private isStreaming(): boolean {
    return this.chat.status === 'submitted' || this.chat.status === 'streaming' || this.joined !== undefined;
  }

  private opened(): void {
    if (this.tab.opened) return;
    this.tab.open();
    this.follow();
    this.outbox.flush();
  }

  private follow(): void {
    this.feed ??= followSession(this.api.eventsUrl, {
      connected: () => {
        // What streamed over the lost connection may never end.
        if (this.view.get().lost) this.stopReading();
        this.view.update({ lost: false });
        this.outbox.flush();
        void this.catchUp();
      },
      lost: () => this.view.update({ lost: true }),
      status: (status) => {
        this.told.status += 1;
        this.view.update({ status });
      },
      session: (state) => {
        this.told.state += 1;
        this.view.update(state);
      },
      turnStarted: (id) => {
        if (this.own.has(id)) return;
        // Where the next turn's answer was joined instead, its question is to be shown before it.
        if (this.joined && this.joined.messageId !== id) this.stopReading();
        void this.catchUp();
      },
      turnFinished: (id) => {
        // A reading that is under way may have been too early for the answer's end.
        if (!this.own.delete(id) || this.catchingUp !== undefined) void this.catchUp();
      },
    });
  }

  /** Reads what is stored, now or when the answer that streams has ended, and joins an answer in flight. */
  private catchUp(): Promise<void> {
    this.behind = true;
    return this.keepUp();
  }

  private keepUp(): Promise<void> {
    this.catchingUp ??= this.readWhileBehind().finally(() => (this.catchingUp = undefined));
    return this.catchingUp;
  }

  private async readWhileBehind(): Promise<void> {
    while (this.behind && !this.isStreaming()) {
      this.behind = false;
      try {
        await this.readStored();
      } catch (error) {
        if (error instanceof Problem) this.readingFailed(error);
        // Where the feed stands, nothing else will ask for it again.
        else if (!this.view.get().lost) this.catchUpLater();
      }
    }
  }

  /** A broken connection is not told here: it is the feed's to tell, and to mend. Who calls is asked for elsewhere. */
  private readingFailed(problem: Problem): void {
    if (problem.status === 404) return startAnew();
    if (problem.status >= 500) this.catchUpLater();
    else if (problem.status !== 401) this.view.update({ notice: wordsOf(problem) });
  }

  private catchUpLater(): void {
    setTimeout(() => void this.catchUp(), PAUSE_MS);
  }

  private async readStored(): Promise<void> {
    const told = { ...this.told };
    // The messages after the status: what is in flight has its question among them.
    const { session, status: read } = await this.api.session();
    const { items, next } = await this.api.messages();
    if (this.isStreaming()) {
      this.behind = true;
      return;
    }
    const { phase, project_id, pending_tool } = session;
    if (told.state === this.told.state) this.view.update({ phase, project_id, pending_tool });
    if (told.status === this.told.status) this.view.update({ status: read });
    const { waiting, earlier, status } = this.view.get();
    const { said, queued } = partQueued(items, status);
    const { messages, joined } = joinPages(this.chat.messages, said);
    this.chat.messages = messages;
    this.view.update({
      waiting: stillWaiting(waiting, said, queued),
      earlier: joined ? earlier : next,
      loaded: true,
    });
    if (status.state !== read.state || status.message_id !== read.message_id) this.behind = true;
    else if (!this.behind && isInFlight(status)) void this.join(status.message_id);
  }

  /** Joins the answer in flight. Where there is none any more the feed tells so, and its end is read. */
  private async join(messageId: string | undefined): Promise<void> {
    this.own.clear();
    this.joined = { messageId };
    await this.chat.resumeStream();
    this.joined = undefined;
    if (this.chat.status !== 'error') void this.keepUp();
  }

  private async attempt(action: () => Promise<void>): Promise<void> {
    this.view.update({ notice: null });
    try {
      await action();
    } catch (error) {
      this.view.update({ notice: wordsOf(error) });
      void this.catchUp();
    }
  }
}

/** Begins a new session in this tab. */
export function startAnew(): void {
  forgetTab();
  location.reload();
}
