import type { UIMessage } from 'ai';
import { isRefusal, reasonOf } from './problem.ts';
import type { Store } from './store.ts';
import type { Waiting } from './transcript.ts';

/** How messages leave. */
interface Ways {
  /** chat: the session is not there yet, its first message opens it. none: it is just being opened. */
  way(): 'queue' | 'chat' | 'none';
  say(message: UIMessage): Promise<void>;
  /** `state`: it was accepted before and does not run again. */
  submit(message: UIMessage): Promise<{ state?: string }>;
  /** Its turn has begun. */
  isSaid(messageId: string): boolean;
}

const AGAIN_MS = 3_000;

/**
 * Messages that are to be sent but not answered at once: the server queues them. Sent in order, one at a time, again
 * and again until the server has them or refuses; the same message sent twice counts once there.
 */
export class Outbox {
  private readonly view: Store<{ waiting: Waiting[] }>;
  private readonly ways: Ways;
  private again: ReturnType<typeof setTimeout> | undefined;
  private isSending = false;

  constructor(view: Store<{ waiting: Waiting[] }>, ways: Ways) {
    this.view = view;
    this.ways = ways;
  }

  add(message: UIMessage): void {
    this.put({ message, state: 'sending' });
    this.flush();
  }

  /** Takes messages that the page had before it was loaded anew, and sends them once it has come up. */
  restore(messages: UIMessage[]): void {
    for (const message of messages) this.put({ message, state: 'sending' });
    if (messages.length > 0) this.flushLater();
  }

  /** Takes a message that another way of sending has failed with. */
  failed(message: UIMessage, error: unknown): void {
    this.put({ message, state: isRefusal(error) ? 'refused' : 'sending', reason: reasonOf(error) }, { first: true });
    this.flushLater();
  }

  remove(messageId: string): void {
    this.view.update({ waiting: this.waiting.filter(({ message }) => message.id !== messageId) });
  }

  /** Sends what has not been sent. */
  flush(): void {
    clearTimeout(this.again);
    if (!this.isSending) void this.sendAll();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    for (let next = this.next(); next; next = this.next()) {
      if (!(await this.sendOne(next))) break;
    }
    this.isSending = false;
    if (this.next()) this.flushLater();
  }

  /** False where it is to be tried again. */
  private async sendOne({ message }: Waiting): Promise<boolean> {
    const way = this.ways.way();
    if (way === 'none') return false;
    if (way === 'chat') {
      this.remove(message.id);
      void this.ways.say(message);
      return false;
    }
    try {
      const { state } = await this.ways.submit(message);
      if (state !== undefined || this.ways.isSaid(message.id)) this.remove(message.id);
      else this.put({ message, state: 'queued' });
      return true;
    } catch (error) {
      const refused = isRefusal(error);
      this.put({ message, state: refused ? 'refused' : 'sending', reason: reasonOf(error) });
      return refused;
    }
  }

  private flushLater(): void {
    clearTimeout(this.again);
    this.again = setTimeout(() => this.flush(), AGAIN_MS);
  }

  private next(): Waiting | undefined {
    return this.waiting.find(({ state }) => state === 'sending');
  }

  private get waiting(): Waiting[] {
    return this.view.get().waiting;
  }

  /** Puts an entry in the place of the one with its message, else at the end or the beginning. */
  private put(entry: Waiting, { first = false } = {}): void {
    const { waiting } = this;
    const at = waiting.findIndex(({ message }) => message.id === entry.message.id);
    if (at >= 0) this.view.update({ waiting: waiting.with(at, entry) });
    else this.view.update({ waiting: first ? [entry, ...waiting] : [...waiting, entry] });
  }
}
