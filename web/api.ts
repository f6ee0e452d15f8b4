import type { UIMessage } from 'ai';
import type { Phase } from '../domain/phases.ts';
import type { PendingTool, SessionStatus } from '../domain/runs.ts';
import { access } from './access.ts';
import { problemOf } from './problem.ts';

/** What a session promises; null where it is not told. */
export interface SessionState {
  phase: Phase;
  project_id: string | null;
  pending_tool: PendingTool | null;
}

/** A session as GET /api/sessions/:id answers, as far as the page reads it. */
interface SessionAnswer {
  session: SessionState;
  status: SessionStatus;
}

/** Messages in order; `next` is the id before which there are more. */
interface MessagesAnswer {
  items: UIMessage[];
  next: string | null;
}

/** What the session has built. */
interface FilesAnswer {
  items: { path: string; bytes: number; updated_at: string }[];
  /** Where the site's index.html is shown, for a while; null: there is none. */
  preview_url: string | null;
  /** The same at the root of a name of its own; null: the host has no such names. */
  preview_site_url: string | null;
}

export type CommandName = 'publish' | 'revert' | 'cancel' | 'abort';

/** Longer than the server takes to say that it cannot: a connection that answers nothing is not there any more. */
const ANSWER_MS = 30_000;

/** The routes of one session. Each throws a Problem, or another error where no server answers. */
export class SessionApi {
  private readonly base: string;

  constructor(id: string) {
    this.base = `/api/sessions/${encodeURIComponent(id)}`;
  }

  get eventsUrl(): string {
    return `${this.base}/events`;
  }

  session(): Promise<SessionAnswer> {
    return this.ask('GET', '');
  }

  messages(before?: string): Promise<MessagesAnswer> {
    return this.ask('GET', before === undefined ? '/messages' : `/messages?before=${encodeURIComponent(before)}`);
  }

  files(): Promise<FilesAnswer> {
    return this.ask('GET', '/files');
  }

  command(name: CommandName): Promise<{ phase: Phase; project_id: string | null; aborted?: boolean }> {
    return this.ask('POST', `/${name}`, {});
  }

  /** `state`: the message had been accepted before, and its run was cancelled or failed. */
  submit({ id, parts }: UIMessage): Promise<{ message_id: string; state?: 'cancelled' | 'error' }> {
    return this.ask('POST', '/messages', { id, parts });
  }

  cancelQueued(messageId: string): Promise<unknown> {
    return this.ask('DELETE', `/messages/${encodeURIComponent(messageId)}`);
  }

  private async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await access.fetch(`${this.base}${path}`, {
      method,
      signal: AbortSignal.timeout(ANSWER_MS),
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    if (!response.ok) throw problemOf(response.status, await response.text());
    return (await response.json()) as T;
  }
}
