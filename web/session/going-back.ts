import type { Chat } from '@ai-sdk/react';
import { generateId, type UIMessage } from 'ai';
import type { SessionApi } from '../api/api.ts';
import { isRefusal, wordsOf } from '../api/problem.ts';
import type { Store } from '../lib/store.ts';
import { filesOf, isFromTask } from '../transcript/transcript.ts';
import type { ChatSync } from './chat-sync.ts';
import type { Outbox } from './outbox.ts';
import type { View } from './view.ts';

interface Deps {
  chat: Chat<UIMessage>;
  sync: ChatSync;
  api: SessionApi;
  outbox: Outbox;
  view: Store<View>;
  /** The chosen model: of a message's metadata, or of a request for another answer. */
  modelField(): object;
}

/** Changing a message, answering one again, going back to one, and branching. */
export class GoingBack {
  private readonly deps: Deps;
  /** The request in flight makes the server drop what is queued. */
  private dropsQueue = false;
  /** What is under way, so that a second click does not begin it again. */
  private readonly underWay = new Set<string>();

  constructor(deps: Deps) {
    this.deps = deps;
  }

  /**
   * Replaces the text of a user message, whose files stay or are left out; what came after it is hidden. False: it did not reach
   * the server or was refused, and the page says why.
   */
  edit(message: UIMessage, { text, withFiles }: { text: string; withFiles: boolean }): Promise<boolean> {
    const { chat, sync } = this.deps;
    const files = withFiles ? filesOf(message) : [];
    const id = generateId();
    const parts = [...files, { type: 'text' as const, text }];
    return this.replace(() => {
      sync.sending(id);
      const metadata = this.deps.modelField();
      return chat.sendMessage({ id, role: 'user', metadata, parts, messageId: message.id });
    });
  }

  /** Answers a user message again, or the one before an answer; what came after it is hidden. */
  regenerate({ id: messageId }: UIMessage): Promise<boolean> {
    const { chat } = this.deps;
    return this.once(`answer ${messageId}`, () =>
      this.replace(() => {
        const at = chat.messages.findIndex(({ id }) => id === messageId);
        const asked = chat.messages.slice(0, at + 1).findLast(({ role }) => role === 'user');
        if (asked !== undefined) this.beginAgain(asked);
        return chat.regenerate({ messageId, body: this.deps.modelField() });
      }),
    );
  }

  /** Another turn of a message begins: how its last one ended counts no more. */
  private beginAgain(asked: UIMessage): void {
    const { chat, sync } = this.deps;
    const { turn: _ended, ...metadata } = (asked.metadata ?? {}) as { turn?: unknown };
    chat.messages = chat.messages.with(chat.messages.indexOf(asked), { ...asked, metadata });
    sync.sending(asked.id);
  }

  /**
   * Hides what came after a user message, which the next message replaces. The workspace is as it was before its turn, if the
   * agent keeps snapshots. False: it was refused, and the page says why, or it is under way already.
   */
  rewind({ id }: UIMessage): Promise<boolean> {
    const { api, sync } = this.deps;
    return this.once(`rewind ${id}`, () =>
      this.moved(async () => {
        await api.rewind(id);
        sync.known({ gone_back_to: id });
      }),
    );
  }

  /** Undoes the latest rewind, and reads whether there is one before it. False: as of `rewind`. */
  undo(): Promise<boolean> {
    return this.once('undo', () => this.moved(() => this.deps.api.unrewind()));
  }

  /** A new message is sent: it replaces the one that was gone back to. */
  goesOn(): void {
    const { chat, sync, view } = this.deps;
    const { gone_back_to } = view.get();
    if (gone_back_to === null) return;
    sync.known({ gone_back_to: null });
    chat.messages = chat.messages.filter(({ id }) => id !== gone_back_to);
  }

  /** Opens a branch with copies of the messages up to one of them. False: as of `rewind`. */
  branch({ id: from }: UIMessage): Promise<boolean> {
    const { api, view } = this.deps;
    return this.once(`branch ${from}`, () =>
      this.tried(async () => {
        const { session } = await api.branch(from);
        view.update({ branch: { from, id: session.session_id } });
      }),
    );
  }

  /** The server has accepted a request of the chat, or may have: what of the user's it has dropped from the queue is sent again. */
  accepted(): void {
    const { outbox, view } = this.deps;
    if (!this.dropsQueue) return;
    this.dropsQueue = false;
    const queued = view.get().waiting.filter(({ message, state }) => state === 'queued' && !isFromTask(message));
    outbox.doubt(queued.map(({ message }) => message));
  }

  private async replace(request: () => Promise<void>): Promise<boolean> {
    const { chat, sync, view } = this.deps;
    const { gone_back_to } = view.get();
    view.update({ notice: null, branch: null });
    await chat.stop();
    this.dropsQueue = true;
    const { messages } = chat;
    sync.known({ gone_back_to: null });
    await request();
    const { status, error, lastMessage } = chat;
    if (status !== 'error' || lastMessage?.role !== 'user') return true;
    if (!isRefusal(error)) this.accepted();
    this.dropsQueue = false;
    // As far as the page knows, all is as it was.
    chat.messages = messages;
    sync.known({ gone_back_to });
    view.update({ notice: wordsOf(error) });
    chat.clearError();
    await sync.catchUp();
    return false;
  }

  private async moved(request: () => Promise<unknown>): Promise<boolean> {
    const isDone = await this.tried(request);
    await this.deps.sync.catchUp();
    return isDone;
  }

  private async tried(request: () => Promise<unknown>): Promise<boolean> {
    const { view } = this.deps;
    view.update({ notice: null, branch: null });
    try {
      await request();
      return true;
    } catch (error) {
      view.update({ notice: wordsOf(error) });
      return false;
    }
  }

  private async once(what: string, action: () => Promise<boolean>): Promise<boolean> {
    if (this.underWay.has(what)) return false;
    this.underWay.add(what);
    try {
      return await action();
    } finally {
      this.underWay.delete(what);
    }
  }
}
