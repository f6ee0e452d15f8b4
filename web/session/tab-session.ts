import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, generateId, type UIMessage } from 'ai';
import type { ListedRule } from '../../domain/permissions.ts';
import type { Todo } from '../../domain/todo.ts';
import { access } from '../api/access.ts';
import {
  type PageCommand,
  type PickedModel,
  modelField,
  readAgents,
  readModels,
  SessionApi,
  type PageMessage,
} from '../api/api.ts';
import { followSession } from '../api/feed.ts';
import { isRefusal, isUnknown, wordsOf } from '../api/problem.ts';
import { Store } from '../lib/store.ts';
import { isInFlight, isUnsent, messageToStop, type Waiting } from '../transcript/transcript.ts';
import { ChatSync } from './chat-sync.ts';
import { GoingBack } from './going-back.ts';
import { Outbox } from './outbox.ts';
import { readSummarized } from './read-summarized.ts';
import { ReadWhileShown } from './read-while-shown.ts';
import { SessionFiles } from './session-files.ts';
import type { CallAnswer } from './shown-session.ts';
import type { Tab } from './tab.ts';
import { Uploads } from './uploads.ts';
import { NEW_VIEW, type View } from './view.ts';

/** How often a hidden tab, which follows nothing, asks how its turn stands. */
const HIDDEN_MS = 15_000;
/** How long until what the server could not do for the moment is asked for again. */
const RETRY_MS = 3_000;

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
  readonly uploads: Uploads;
  /** By full name, such as `user:theme`. */
  readonly state: ReadWhileShown<Record<string, unknown>>;
  readonly todos: ReadWhileShown<Todo[]>;
  /** The permission rules in force. */
  readonly permissions: ReadWhileShown<ListedRule[]>;
  readonly files: SessionFiles;
  readonly goingBack: GoingBack;
  private readonly firstShown = new Map<string, Date>();
  private readonly tab: Tab;
  private readonly api: SessionApi;
  private readonly sync: ChatSync;
  private readonly outbox: Outbox;
  private readonly closing = new AbortController();
  private feed: ReturnType<typeof followSession> | undefined;
  /** Since the tab was hidden, no turn was found in flight. */
  private isKnownIdle = false;
  private readingEarlier: Promise<void> | undefined;
  /** A list to choose from could not be read. */
  private lacksChoices = false;
  /** What the server could not do for the moment. */
  private readonly failed = new Set<() => void>();

  /** @param gone called when the server has no such session any more */
  constructor(tab: Tab, gone: () => void) {
    this.tab = tab;
    this.api = new SessionApi(tab.id);
    this.uploads = new Uploads(async (file, on) => {
      const attached = await this.api.attach(file, on);
      this.opened();
      return attached;
    });
    // Before the server has the session there is nothing to read.
    const later = (again: () => void) => this.later(again);
    this.state = new ReadWhileShown(async () => (tab.opened ? (await this.api.state()).state : {}), later);
    this.todos = new ReadWhileShown(async () => (tab.opened ? (await this.api.todos()).items : []), later);
    this.permissions = new ReadWhileShown(async () => (tab.opened ? (await this.api.permissions()).items : []), later);
    this.files = new SessionFiles(this.api, () => tab.opened, later);
    this.chat = new Chat({
      id: tab.id,
      transport: new DefaultChatTransport({
        fetch: async (url, init) => {
          const response = await access.fetchStream(url, init);
          if (response.headers.has('x-perdure-session')) {
            this.opened();
            this.goingBack.accepted();
          }
          return response;
        },
      }),
      onData: (part) => this.received(part),
      onError: () => this.sync.streamFailed(),
      onFinish: (end) => this.sync.streamEnded(end),
    });
    const { signal } = this.closing;
    this.sync = new ChatSync({ chat: this.chat, view: this.view, tab, api: this.api, closed: signal, gone });
    this.outbox = new Outbox(this.view, {
      route: () => (access.isAsked ? 'none' : this.tab.opened ? 'queue' : this.sync.isStreaming ? 'none' : 'chat'),
      say: (message) => this.say(message),
      submit: (message) => this.api.submit(message),
      isSaid: (id) => this.chat.messages.some((message) => message.id === id),
    });
    const { chat, sync, api, outbox, view } = this;
    this.goingBack = new GoingBack({ chat, sync, api, outbox, view, modelField: () => this.modelField() });
    this.outbox.restore(tab.unsent);
    this.keepUnsent();
    void this.readChoices();
    if (tab.opened) {
      void this.sync.catchUp();
      this.follow();
    } else {
      this.view.update({ loaded: true });
      void access.check();
    }
    document.addEventListener('visibilitychange', () => this.stopIfHidden(), { signal });
    const asking = setInterval(() => void this.askIfHidden(), HIDDEN_MS);
    signal.addEventListener('abort', () => clearInterval(asking));
    window.addEventListener('online', () => this.outbox.flush(), { signal });
    access.onAccess(() => {
      this.view.update({ notice: null });
      this.outbox.flush();
      void this.readChoices();
      if (tab.opened) void this.sync.catchUp();
    }, signal);
  }

  /** Stops following the session, which goes on without this page. */
  close(): void {
    this.closing.abort();
    this.outbox.close();
    this.feed?.close();
    this.sync.stopReading();
  }

  /** The session's id or alias in this tab. */
  get id(): string {
    return this.tab.id;
  }

  /** When a message was stored; of one that the page has not read yet, when it was first shown. */
  timeOf(message: PageMessage): Date {
    if (message.created_at !== undefined) return new Date(message.created_at);
    const known = this.firstShown.get(message.id);
    if (known !== undefined) return known;
    const now = new Date();
    this.firstShown.set(message.id, now);
    return now;
  }

  /** Sends what the user typed, with the uploaded files, also while an answer is in flight. */
  send(text: string): void {
    const words = text.trim() === '' ? [] : [{ type: 'text' as const, text }];
    const parts = [...this.uploads.take(), ...words];
    // The model is the message's own, however late it is sent.
    const message: UIMessage = { id: generateId(), role: 'user', metadata: this.modelField(), parts };
    const { status, waiting } = this.view.get();
    this.view.update({ notice: null });
    if (this.sync.isStreaming || isInFlight(status) || waiting.length > 0) return this.outbox.add(message);
    this.goingBack.goesOn();
    void this.say(message);
  }

  /** Ends the answer that the user sees, and not the next one, which may begin before the server has the command. */
  stop(): Promise<void> {
    const { waiting, status } = this.view.get();
    const { messages, status: chat } = this.chat;
    const message_id = messageToStop({ messages, waiting, status, isSubmitted: chat === 'submitted' });
    return this.command('abort', { message_id });
  }

  /** Answers a tool call that asks, of this session or of one of its subagents. */
  readonly answer = async ({ session, toolCallId, decision, reason }: CallAnswer): Promise<boolean> => {
    let isTaken = false;
    await this.attempt(async () => {
      await new SessionApi(session).answer(toolCallId, decision, reason);
      isTaken = true;
    });
    // The feed tells as well, unless its connection is lost.
    void this.sync.catchUp();
    return isTaken;
  };

  async command(name: PageCommand, body: object = {}): Promise<void> {
    await this.attempt(async () => {
      const { phase, project_id } = await this.api.command(name, body);
      this.view.update({ phase, project_id });
    });
  }

  /** @throws {ProblemError} */
  revoke(ruleId: string): Promise<unknown> {
    return this.api.revoke(ruleId);
  }

  /**
   * Takes back a waiting message. False: it is being answered (the page says so) or taken back already, or the conversation was
   * left.
   */
  async takeBack({ message: { id } }: Waiting): Promise<boolean> {
    const { takingBack } = this.view.get();
    if (takingBack.includes(id)) return false;
    this.view.update({ takingBack: [...takingBack, id] });
    const isTaken = !(await this.outbox.mayHaveArrived(id)) || (await this.isCancelled(id));
    if (isTaken) this.outbox.remove(id);
    this.view.update({ takingBack: this.view.get().takingBack.filter((each) => each !== id) });
    this.outbox.flush();
    return isTaken;
  }

  /** Takes a message out of the server's queue, and asks again until the server has answered. True also if it never arrived. */
  private async isCancelled(id: string): Promise<boolean> {
    // Once the conversation has been left, its messages stay queued.
    while (!this.closing.signal.aborted) {
      let failure: unknown;
      await this.attempt(async () => {
        await this.api.cancelQueued(id).catch((error: unknown) => {
          if (isUnknown(error)) return;
          failure = error;
          throw error;
        });
      });
      if (failure === undefined) return true;
      if (isRefusal(failure)) return false;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    return false;
  }

  /** Loads the page of messages before those shown, one at a time. */
  showEarlier(): Promise<void> {
    this.readingEarlier ??= this.readEarlier().finally(() => (this.readingEarlier = undefined));
    return this.readingEarlier;
  }

  private async readEarlier(): Promise<void> {
    const { earlier } = this.view.get();
    if (earlier === null) return;
    await this.attempt(async () => {
      const { items, next } = await this.api.messages(earlier);
      if (this.view.get().earlier !== earlier) return;
      this.chat.messages = [...items, ...this.chat.messages];
      this.view.update({ earlier: next });
    });
  }

  /** Loads earlier messages until one of them is there. False: it is none of those that are shown, or could not be read. */
  async showBackTo(messageId: string, signal: AbortSignal): Promise<boolean> {
    const isThere = () => this.chat.messages.some(({ id }) => id === messageId);
    let read = '';
    while (!isThere()) {
      const { earlier } = this.view.get();
      if (earlier === null || earlier === read || signal.aborted) return false;
      read = earlier;
      await this.showEarlier();
    }
    return true;
  }

  /** As `readSummarized`. */
  summarized(summaryId: string, onRead: (read: number) => void): Promise<UIMessage[]> {
    return readSummarized(this.api, summaryId, onRead, this.closing.signal);
  }

  /** A tool has ended: what it writes is committed with its result, or stands in the workspace. Its step has reported its tokens. */
  toolEnded(): void {
    if (this.tab.opened && this.sync.isStreaming) void this.sync.readSession();
    void this.files.refresh();
    this.todos.changed();
  }

  /** Chooses the model of the next messages; null: as before. */
  chooseModel(model: PickedModel | null): void {
    this.view.update({ model });
  }

  dismiss(): void {
    this.view.update({ notice: null });
  }

  /** Sends a message through the chat. If it is not accepted, it goes to the outbox. */
  private async say(message: UIMessage): Promise<void> {
    this.sync.sending(message.id);
    this.outbox.trying(message.id);
    await this.chat.sendMessage(message);
    const { status, error, lastMessage } = this.chat;
    if (status !== 'error' || lastMessage?.id !== message.id) return;
    this.sync.notSent(message.id);
    this.chat.messages = this.chat.messages.slice(0, -1);
    this.chat.clearError();
    this.outbox.failed(message, error);
  }

  /** Of a message's metadata, or of a request for another answer. */
  private modelField(): object {
    return modelField(this.view.get().model);
  }

  /** Without the lists the page has no choice, and no phases before the first one. */
  private async readChoices(): Promise<void> {
    const [offered, agents] = await Promise.all([readModels().catch(() => null), readAgents().catch(() => null)]);
    this.lacksChoices = offered === null || agents === null;
    this.view.update({ ...(offered && { offered }), ...(agents && { agents }) });
  }

  /** Once a lost connection is there again, or the user has signed in or looks at the page again, all is read anyway. */
  private later(again: () => void): void {
    const isWaiting = this.failed.size > 0;
    this.failed.add(again);
    if (isWaiting) return;
    setTimeout(() => {
      const failed = [...this.failed];
      this.failed.clear();
      const isFollowed = !this.view.get().lost && !access.isAsked && document.visibilityState === 'visible';
      if (isFollowed && !this.closing.signal.aborted) for (const each of failed) each();
    }, RETRY_MS);
  }

  /** Stores unsent messages, so that a reload does not lose them. */
  private keepUnsent(): void {
    let kept = this.view.get().waiting;
    const stop = this.view.subscribe(() => {
      const { waiting } = this.view.get();
      if (waiting === kept) return;
      kept = waiting;
      this.tab.keepUnsent(waiting.filter((entry) => isUnsent(entry)));
    });
    this.closing.signal.addEventListener('abort', stop);
  }

  /**
   * A hidden tab stops reading its answer, which nobody sees; the run continues. When the tab is visible again
   * the feed reconnects, and the answer is read and joined.
   */
  private stopIfHidden(): void {
    this.isKnownIdle = false;
    if (document.visibilityState === 'hidden') this.sync.stopReading();
  }

  /** For the title of a hidden tab, which says if the agent waits for the user. */
  private async askIfHidden(): Promise<void> {
    if (document.visibilityState !== 'hidden' || !this.tab.opened || this.isKnownIdle) return;
    const status = await this.api.status().catch(() => undefined);
    if (status === undefined || document.visibilityState !== 'hidden') return;
    this.isKnownIdle = !isInFlight(status);
    this.sync.statusChanged(status);
  }

  /** Transient parts: the progress of a tool, and of a compaction, which changes what is shown once the answer has ended. */
  private received({ type, data }: { type: string; data: unknown }): void {
    if (type === 'data-progress') this.view.update({ progress: data as View['progress'] });
    else if (type === 'data-compaction') void this.sync.catchUp();
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
        this.state.changed();
        this.permissions.changed();
        this.todos.changed();
        void this.files.reconnected();
        if (this.lacksChoices) void this.readChoices();
        void this.sync.catchUp();
        void this.sync.readSession();
      },
      lost: () => {
        this.view.update({ lost: true });
        // A session that was erased has no stream any more either: reading it tells.
        void this.sync.readSession();
      },
      status: (status) => this.sync.statusChanged(status),
      session: (session) => this.sync.sessionChanged(session),
      stateChanged: () => this.state.changed(),
      rulesChanged: () => this.permissions.changed(),
      turnStarted: (messageId) => this.sync.turnStarted(messageId),
      callWaits: () => void this.sync.catchUp(),
      turnFinished: (messageId, outcome) => {
        this.sync.turnFinished(messageId, outcome);
        void this.sync.readSession();
      },
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
