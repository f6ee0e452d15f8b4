import { APICallError, type UIMessage } from 'ai';
import type { Phase } from '../domain/phases.ts';
import type { PendingTool, SessionStatus } from '../domain/runs.ts';
import { sentence } from './sentence.ts';

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
}

export type CommandName = 'publish' | 'revert' | 'cancel' | 'abort';

/** What the server refuses, in its words. */
export class Problem extends Error {
  readonly code: string;
  readonly status: number;

  constructor(status: number, code: string, detail: string) {
    super(detail);
    this.name = 'Problem';
    this.status = status;
    this.code = code;
  }
}

/** The routes of one session. Each throws a Problem, or a TypeError where there is no server. */
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

  submit({ id, parts }: UIMessage): Promise<{ message_id: string; position: number }> {
    return this.ask('POST', '/messages', { id, parts });
  }

  cancelQueued(messageId: string): Promise<unknown> {
    return this.ask('DELETE', `/messages/${encodeURIComponent(messageId)}`);
  }

  private async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.base}${path}`, {
      method,
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    if (!response.ok) throw problemOf(response.status, await response.text());
    return (await response.json()) as T;
  }
}

/** Whether the server said no, so that the same again gets the same; else it was not reached or is in trouble. */
export function isRefusal(error: unknown): boolean {
  const { status } = problemIn(error) ?? { status: 500 };
  return status < 500 && status !== 429;
}

/** What went wrong, for people. */
export function wordsOf(error: unknown): string {
  const problem = problemIn(error);
  return problem ? sentence(problem.message) : 'The server cannot be reached.';
}

function problemIn(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error;
  return APICallError.isInstance(error) ? problemOf(error.statusCode ?? 500, error.responseBody ?? '') : undefined;
}

function problemOf(status: number, text: string): Problem {
  try {
    const { code, detail } = JSON.parse(text) as { code: string; detail: string };
    return new Problem(status, code, detail);
  } catch {
    // Something between the page and the server answers in its own way.
    return new Problem(status, 'Internal', `the server answered ${status}; try again in a moment`);
  }
}
