import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, type UIMessage } from 'ai';
import type { SessionStatus } from '../../domain/runs.ts';
import { access } from '../api/access.ts';
import { SessionApi } from '../api/api.ts';
import { ProblemError, wordsOf } from '../api/problem.ts';
import { Store } from '../lib/store.ts';
import { isInFlight } from '../transcript/transcript.ts';
import { readSummarized } from './read-summarized.ts';
import type { View } from './view.ts';

/** How long until a child is looked at again: one that waits for an answer, or whose answer has just ended. */
const WAITS_MS = 2_000;
const ENDED_MS = 250;

interface Shown {
  /** Undefined: not read yet. */
  status: SessionStatus | undefined;
  /** Of a tool call of the child. */
  progress: View['progress'];
  /** Why it could not be read. */
  notice: string | undefined;
}

/**
 * The session of a subagent, to read: its stored messages, and its answer while it streams. It has one stream, and that only
 * while the child works and the tab is visible: what else changes is asked for.
 */
export class ChildSession {
  readonly chat: Chat<UIMessage>;
  readonly view = new Store<Shown>({ status: undefined, progress: null, notice: undefined });
  private readonly api: SessionApi;
  private readonly closing = new AbortController();
  private wake = () => {};

  constructor(id: string) {
    this.api = new SessionApi(id);
    this.chat = new Chat({
      id,
      transport: new DefaultChatTransport({ fetch: access.fetchStream }),
      onData: ({ type, data }) => {
        if (type === 'data-progress') this.view.update({ progress: data as View['progress'] });
      },
    });
    const { signal } = this.closing;
    document.addEventListener('visibilitychange', () => this.visibilityChanged(), { signal });
    void this.follow();
  }

  close(): void {
    this.closing.abort();
    this.wake();
    void this.chat.stop();
  }

  /** It may have changed. */
  changed(): void {
    this.wake();
  }

  /** As `readSummarized`. */
  summarized(summaryId: string, onRead: (read: number) => void): Promise<UIMessage[]> {
    return readSummarized(this.api, summaryId, onRead, this.closing.signal);
  }

  private visibilityChanged(): void {
    if (document.visibilityState === 'hidden') void this.chat.stop();
    else this.wake();
  }

  private async follow(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      const state = await this.read().catch((error: unknown) => this.readingFailed(error));
      if (signal.aborted) return;
      if (document.visibilityState === 'hidden') await this.pause();
      else if (state === 'works') {
        await this.chat.resumeStream();
        await this.pause(ENDED_MS);
      } else await this.pause(state === 'waits' ? WAITS_MS : undefined);
    }
  }

  /** Reads what is stored. */
  private async read(): Promise<'works' | 'waits' | 'rests'> {
    // The status first, so that the messages contain what the answer in flight belongs to.
    const status = await this.api.status();
    const { items } = await this.api.messages();
    this.chat.messages = items;
    this.view.update({ status, notice: undefined });
    if (status.state === 'waiting') return 'waits';
    return isInFlight(status) ? 'works' : 'rests';
  }

  private readingFailed(error: unknown): 'waits' {
    this.view.update({ notice: wordsOf(error) });
    // Erased.
    if (error instanceof ProblemError && error.status === 404) this.closing.abort();
    return 'waits';
  }

  /** Until the time is over, or something has changed. */
  private pause(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
