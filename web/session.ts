import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, generateId, type UIMessage } from 'ai';
import { access } from './access.ts';
import { type CommandName, SessionApi } from './api.ts';
import { ChatSync } from './chat-sync.ts';
import { followSession } from './feed.ts';
import { Outbox } from './outbox.ts';
import { wordsOf } from './problem.ts';
import { shownAt } from './shown.ts';
import { Store } from './store.ts';
import type { Tab } from './tab.ts';
import { isInFlight, type Waiting } from './transcript.ts';
import { NEW_VIEW, type View } from './view.ts';

/**
 * The tab's session: the AI SDK's chat, and the state that the chat does not hold.
 *
 * 1. A message is in `chat.messages` once its answer has begun, before that in `view.waiting`; never in both.
 * 2. One answer streams at a time.
 * 3. A message sent in an idle session goes through the chat; all other changes, from this tab or elsewhere, are
 *    reported by the feed and then read (see ChatSync).
 */
export class TabSession {
  readonly chat: Chat<UIMessage>;
  readonly view = new Store<View>(NEW_VIEW);
  private readonly tab: Tab;
  private readonly api: SessionApi;
  private readonly sync: ChatSync;
  private readonly outbox: Outbox;
  private feed: ReturnType<typeof followSession> | undefined;
  /** The file list of the shown preview, in JSON. */
  private shownFiles = '[]';

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
      onError: () => this.sync.streamFailed(),
      onFinish: (end) => this.sync.streamEnded(end),
    });
    this.sync = new ChatSync({ chat: this.chat, view: this.view, tab, api: this.api });
    this.outbox = new Outbox(this.view, {
      route: () => (access.isAsked ? 'none' : this.tab.opened ? 'queue' : this.sync.isStreaming ? 'none' : 'chat'),
      say: (message) => this.say(message),
      submit: (message) => this.api.submit(message),
      isSaid: (id) => this.chat.messages.some((message) => message.id === id),
    });
    this.outbox.restore(tab.unsent);
    this.keepUnsent();
    if (tab.opened) {
      void this.sync.catchUp();
      this.follow();
    } else {
      this.view.update({ loaded: true });
      void access.check();
    }
    document.addEventListener('visibilitychange', () => this.stopIfHidden());
    window.addEventListener('online', () => this.outbox.flush());
    access.onAccess(() => {
      this.view.update({ notice: null });
      this.outbox.flush();
      if (tab.opened) void this.sync.catchUp();
    });
  }

  /** The session's id or alias in this tab. */
  get id(): string {
    return this.tab.id;
  }

  /** Sends what the user typed, also while an answer is in flight. */
  send(text: string): void {
    const message: UIMessage = { id: generateId(), role: 'user', parts: [{ type: 'text', text }] };
    const { status, waiting } = this.view.get();
    this.view.update({ notice: null });
    if (this.sync.isStreaming || isInFlight(status) || waiting.length > 0) this.outbox.add(message);
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

  /** Takes back a waiting message. */
  async takeBack({ message, state }: Waiting): Promise<void> {
    if (state !== 'queued') return this.outbox.remove(message.id);
    await this.attempt(async () => {
      await this.api.cancelQueued(message.id);
      this.outbox.remove(message.id);
    });
  }

  /** Loads the page of messages before those shown. */
  async showEarlier(): Promise<void> {
    const { earlier } = this.view.get();
    if (earlier === null) return;
    await this.attempt(async () => {
      const { items, next } = await this.api.messages(earlier);
      this.chat.messages = [...items, ...this.chat.messages];
      this.view.update({ earlier: next });
    });
  }

  /** Reads the workspace files and updates the preview if they have changed, or if `again` is set. */
  async refreshPreview({ again = false } = {}): Promise<void> {
    if (!this.tab.opened) return;
    try {
      const { items, preview_url, preview_site_url } = await this.api.files();
      const files = JSON.stringify(items);
      if (files === this.shownFiles && !again) return;
      this.shownFiles = files;
      this.view.update({ preview: preview_url === null ? null : await shownAt(preview_url, preview_site_url) });
    } catch (error) {
      // The preview stays; the next tool output causes another reading.
      if (again) this.view.update({ notice: wordsOf(error) });
    }
  }

  dismiss(): void {
    this.view.update({ notice: null });
  }

  /** Sends a message through the chat. If it is not accepted, it goes to the outbox. */
  private async say(message: UIMessage): Promise<void> {
    this.sync.sending(message.id);
    await this.chat.sendMessage(message);
    const { status, error, lastMessage } = this.chat;
    if (status !== 'error' || lastMessage?.id !== message.id) return;
    this.sync.notSent(message.id);
    this.chat.messages = this.chat.messages.slice(0, -1);
    this.chat.clearError();
    this.outbox.failed(message, error);
  }

  /** Stores unsent messages, so that a reload does not lose them. */
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
   * A hidden tab stops reading its answer, because connections are few; the run continues. When the tab is visible again
   * the feed reconnects, and the answer is read and joined.
   */
  private stopIfHidden(): void {
    if (document.visibilityState === 'hidden') this.sync.stopReading();
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
        // A stream over the lost connection may never end.
        if (this.view.get().lost) this.sync.stopReading();
        this.view.update({ lost: false });
        this.outbox.flush();
        void this.sync.catchUp();
      },
      lost: () => this.view.update({ lost: true }),
      status: (status) => this.sync.statusChanged(status),
      session: (state) => this.sync.stateChanged(state),
      turnStarted: (messageId) => this.sync.turnStarted(messageId),
      turnFinished: (messageId) => this.sync.turnFinished(messageId),
    });
  }

  private async attempt(action: () => Promise<void>): Promise<void> {
    this.view.update({ notice: null });
    try {
      await action();
    } catch (error) {
      this.view.update({ notice: wordsOf(error) });
      void this.sync.catchUp();
    }
  }
}
