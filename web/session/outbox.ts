import { generateId, type UIMessage } from 'ai';
import { isRefusal, retryReason } from '../api/problem.ts';
import type { Store } from '../lib/store.ts';
import { isUnsent, type Waiting } from '../transcript/transcript.ts';
import type { View } from './view.ts';

/** How messages are sent. */
interface Routes {
  /** chat: no session yet, the first message opens it. none: wait. */
  route(): 'queue' | 'chat' | 'none';
  say(message: UIMessage): Promise<void>;
  /** `state`: it was accepted earlier and does not run again; `cancelled`: it was taken out of the queue. */
  submit(message: UIMessage): Promise<{ state?: string }>;
  /** Its turn has started. */
  isSaid(messageId: string): boolean;
}

type Entries = Pick<View, 'waiting' | 'takingBack'>;

const RETRY_MS = 3_000;

/**
 * Messages for the server's queue. They are sent in order, one at a time, and retried until the server accepts or
 * refuses them; retries are safe because the server deduplicates by message id.
 */
export class Outbox {
  private readonly view: Store<Entries>;
  private readonly routes: Routes;
  /** Ids of messages that may have left this device. */
  private readonly tried = new Set<string>();
  private attempt: { id: string; over: Promise<boolean> } | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private isSending = false;
  private isClosed = false;

  constructor(view: Store<Entries>, routes: Routes) {
    this.view = view;
    this.routes = routes;
  }

  add(message: UIMessage): void {
    this.put({ message, state: 'sending' });
    this.flush();
  }

  /** Adds messages stored before a reload, and sends them. */
  restore(unsent: Waiting[]): void {
    for (const entry of unsent) {
      this.put(entry);
      this.tried.add(entry.message.id);
    }
    if (unsent.length > 0) this.flushLater();
  }

  /** The server may have dropped queued messages: those that it has dropped are sent again, as new messages. */
  doubt(messages: UIMessage[]): void {
    for (const message of messages) this.put({ message, state: 'doubtful' });
    this.flush();
  }

  /** Adds a message that could not be sent through the chat. */
  failed(message: UIMessage, error: unknown): void {
    this.put({ message, state: isRefusal(error) ? 'refused' : 'sending', reason: retryReason(error) }, { first: true });
    this.flushLater();
  }

  /** An attempt to send a message begins. While the device is offline, nothing leaves it. */
  trying(messageId: string): void {
    if (navigator.onLine) this.tried.add(messageId);
  }

  /** Whether the server may have a message, or may get it yet. Waits for the end of an attempt in progress. */
  async mayHaveArrived(messageId: string): Promise<boolean> {
    if (this.attempt?.id === messageId) await this.attempt.over;
    const state = this.waiting.find(({ message }) => message.id === messageId)?.state;
    return state === 'sending' ? this.tried.has(messageId) : state !== 'refused';
  }

  remove(messageId: string): void {
    this.view.update({ waiting: this.waiting.filter(({ message }) => message.id !== messageId) });
  }

  /** Sends nothing more; what is unsent stays stored. */
  close(): void {
    this.isClosed = true;
    clearTimeout(this.retry);
  }

  /** Sends unsent messages now. */
  flush(): void {
    clearTimeout(this.retry);
    if (!this.isSending) void this.sendAll();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    for (let next = this.next(); next; next = this.next()) {
      this.attempt = { id: next.message.id, over: this.sendOne(next) };
      if (!(await this.attempt.over)) break;
    }
    this.isSending = false;
    if (this.next()) this.flushLater();
  }

  /** False: retry later. */
  private async sendOne({ message, state: before }: Waiting): Promise<boolean> {
    const route = this.routes.route();
    if (route === 'none') return false;
    if (route === 'chat') {
      this.remove(message.id);
      void this.routes.say(message);
      return false;
    }
    this.trying(message.id);
    try {
      const { state } = await this.routes.submit(message);
      if (before === 'doubtful' && state === 'cancelled' && !this.isTakenBack(message.id)) {
        this.put({ message: { ...message, id: generateId() }, state: 'sending' }, { replaces: message.id });
      } else if (state !== undefined || this.routes.isSaid(message.id)) this.remove(message.id);
      else this.put({ message, state: 'queued' });
      return true;
    } catch (error) {
      const refused = isRefusal(error);
      this.put({ message, state: refused ? 'refused' : before, reason: retryReason(error) });
      return refused;
    }
  }

  private flushLater(): void {
    clearTimeout(this.retry);
    if (this.isClosed) return;
    this.retry = setTimeout(() => this.flush(), RETRY_MS);
  }

  private next(): Waiting | undefined {
    if (this.isClosed) return undefined;
    return this.waiting.find((entry) => isUnsent(entry) && !this.isTakenBack(entry.message.id));
  }

  private isTakenBack(messageId: string): boolean {
    return this.view.get().takingBack.includes(messageId);
  }

  private get waiting(): Waiting[] {
    return this.view.get().waiting;
  }

  /** Replaces the entry of the same message, or of another one, or adds it at the end or the beginning. */
  private put(entry: Waiting, { first = false, replaces = entry.message.id } = {}): void {
    const { waiting } = this;
    const at = waiting.findIndex(({ message }) => message.id === replaces);
    if (at >= 0) this.view.update({ waiting: waiting.with(at, entry) });
    else this.view.update({ waiting: first ? [entry, ...waiting] : [...waiting, entry] });
  }
}
