import type { UIMessage } from 'ai';
import type { Phase } from '../domain/phases.ts';
import type { PendingTool, SessionStatus } from '../domain/runs.ts';
import { access } from './access.ts';
import { problemOf } from './problem.ts';

/** The state of a session. */
export interface SessionState {
  phase: Phase;
  project_id: string | null;
  pending_tool: PendingTool | null;
}

/** The fields of GET /api/sessions/:id that the page uses. */
interface SessionAnswer {
  session: SessionState;
  status: SessionStatus;
}

/** Messages in order; `next` is the cursor of earlier ones. */
interface MessagesAnswer {
  items: UIMessage[];
  next: string | null;
}

/** The workspace files of a session. */
interface FilesAnswer {
  items: { path: string; bytes: number; updated_at: string }[];
  /** URL that shows the site's index.html for an hour; null: no index.html. */
  preview_url: string | null;
  /** The same at the root of a host name of its own; null: not available. */
  preview_site_url: string | null;
}

export type CommandName = 'publish' | 'revert' | 'cancel' | 'abort';

/** Request timeout, longer than the server's own timeouts. */
const ANSWER_MS = 30_000;

/** The routes of one session. Each throws a Problem, or another error if the server cannot be reached. */
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

  /** `state`: the message had been accepted earlier, and its run was cancelled or failed. */
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
