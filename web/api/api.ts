import type { UIMessage } from 'ai';
import type { z } from 'zod';
import { splitModelRef } from '../../domain/model-ref.ts';
import type { ListedRule, PermissionAnswer } from '../../domain/permissions.ts';
import type { Phase } from '../../domain/phases.ts';
import type { PendingTool, SessionStatus } from '../../domain/runs.ts';
import type { Todo } from '../../domain/todo.ts';
import type { searchHit, workspaceFiles } from '../../wire/responses.ts';
import { access } from './access.ts';
import { problemOfResponse } from './problem.ts';

/** The state of a session. */
export interface SessionFacts {
  phase: Phase;
  project_id: string | null;
  pending_tool: PendingTool | null;
  /** The user message that was gone back to, which the next message replaces. */
  gone_back_to: string | null;
}

/** The fields of GET /api/sessions/:id that the page uses. */
export interface SessionAnswer {
  session: Omit<SessionFacts, 'gone_back_to'> & { session_id: string; updated_at: string };
  chat: {
    agent: string;
    model: string | null;
    parent_id: string | null;
    /** Greater than 0: the session of a subagent. */
    depth: number;
    cost_usd: number | null;
    archived_at: string | null;
    metadata: Record<string, unknown>;
  };
  status: SessionStatus;
  title: string | null;
  /** Only where one session is read. */
  window?: WindowInUse | null;
  /** Only where one session is read. */
  gone_back_to?: string | null;
}

/** How full the model's window is, in tokens; null: unknown. */
export interface WindowInUse {
  tokens: number | null;
  /** At which number the conversation is compacted. */
  limit?: number | null;
}

/** A message that matches a search. */
export type FoundMessage = z.infer<typeof searchHit>;

/** A stored message: an AI SDK UIMessage, and when it was stored. */
export type PageMessage = UIMessage & { created_at?: string };

/** A part of a list; `next` is the cursor of what follows in the order of reading, null: nothing. */
export interface ListPart<T> {
  items: T[];
  next: string | null;
}

/** The workspace files of a session. */
type FilesAnswer = z.infer<typeof workspaceFiles>;

/** A file of a session's workspace. */
export type FileItem = FilesAnswer['items'][number];

/** A model, with one of its variants or none. */
export interface PickedModel {
  /** `provider/model`. */
  model: string;
  variant?: string;
}

/** The models to choose from, with the default one, also by agent. */
export interface Offered {
  default: string | null;
  agents: Record<string, string>;
  items: { model: string; variants: readonly string[] }[];
}

/** The agents to open sessions with; null: unknown. */
export interface Agents {
  default: string | null;
  items: { id: string; uses_phases: boolean | null }[];
}

/** An uploaded file. */
export interface Attached {
  media_type: string;
  /** For a file part. */
  url: string;
}

export type PageCommand = 'publish' | 'revert' | 'cancel' | 'abort' | 'compact';

/** A listing is complete if it has fewer files. */
const MOST_FILES = 500;
/** A path as `items` of a listing names it, without hidden folders and files. */
const LISTED = /^[^/.][^/]*(?:\/[^/.][^/]*)*$/;

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

  messages(before?: string): Promise<ListPart<PageMessage>> {
    return this.ask(
      'GET',
      before === undefined
        ? '/messages?times=true'
        : `/messages?times=true&limit=200&before=${encodeURIComponent(before)}`,
    );
  }

  /** The newest page of the messages before one, hidden ones included. */
  hidden(before: string): Promise<ListPart<PageMessage>> {
    return this.ask('GET', `/messages?hidden=true&times=true&limit=200&before=${encodeURIComponent(before)}`);
  }

  /** What the session sees of state, by full name. */
  state(): Promise<{ state: Record<string, unknown> }> {
    return this.ask('GET', '/state');
  }

  files(): Promise<FilesAnswer> {
    return this.ask('GET', '/files');
  }

  /** The text of a workspace file as it is now; null: there is none; undefined: the page cannot read it. */
  async file(path: string): Promise<string | null | undefined> {
    if (!LISTED.test(path)) return undefined;
    const { items, files_url } = await this.files();
    if (items.length < MOST_FILES && !items.some((file) => file.path === path)) return null;
    const url = files_url + path.split('/').map(encodeURIComponent).join('/');
    const response = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS) });
    if (response.status === 404) return null;
    return response.ok ? response.text() : undefined;
  }

  /** The todos of the session's project. */
  todos(): Promise<{ items: Todo[] }> {
    return this.ask('GET', '/todos');
  }

  status(): Promise<SessionStatus> {
    return this.ask('GET', '/status');
  }

  /** Answers a tool call that asks. */
  answer(toolCallId: string, decision: PermissionAnswer, reason?: string): Promise<unknown> {
    return this.ask('POST', '/answer', { tool_call_id: toolCallId, decision, ...(reason !== undefined && { reason }) });
  }

  /** The permission rules in force. */
  permissions(): Promise<{ items: ListedRule[] }> {
    return this.ask('GET', '/permissions');
  }

  revoke(ruleId: string): Promise<unknown> {
    return this.ask('DELETE', `/permissions/${encodeURIComponent(ruleId)}`);
  }

  command(
    name: PageCommand,
    body: object = {},
  ): Promise<{ phase: Phase; project_id: string | null; aborted?: boolean }> {
    return this.ask('POST', `/${name}`, body);
  }

  /** `state`: the message had been accepted earlier, and its run was cancelled or failed. */
  submit({ id, parts, metadata }: UIMessage): Promise<{ message_id: string; state?: 'cancelled' | 'error' }> {
    return this.ask('POST', '/messages', { id, parts, metadata });
  }

  /** @param title null: the first line of the first message again */
  rename(title: string | null): Promise<unknown> {
    return this.ask('POST', '/rename', { title });
  }

  archive(archived: boolean): Promise<unknown> {
    return this.ask('POST', '/archive', { archived });
  }

  /** Erases the session with all that belongs to it. */
  erase(): Promise<unknown> {
    return this.ask('DELETE', '');
  }

  rewind(messageId: string): Promise<unknown> {
    return this.ask('POST', '/rewind', { message_id: messageId });
  }

  unrewind(): Promise<unknown> {
    return this.ask('POST', '/unrewind', {});
  }

  branch(messageId: string): Promise<SessionAnswer> {
    return this.ask('POST', '/branch', { from_message_id: messageId });
  }

  /** Opens the session if it does not exist yet. */
  async attach(file: File, on: Parameters<typeof access.upload>[2]): Promise<Attached> {
    const url = `${this.base}/attachments?filename=${encodeURIComponent(file.name)}`;
    const { status, text } = await access.upload(url, file, on);
    if (status !== 201) throw problemOfResponse(status, text);
    return JSON.parse(text) as Attached;
  }

  cancelQueued(messageId: string): Promise<unknown> {
    return this.ask('DELETE', `/messages/${encodeURIComponent(messageId)}`);
  }

  private ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    return askHost(method, `${this.base}${path}`, body);
  }
}

/** A page of the user's sessions, archived ones included, newest first. @throws as the routes of a session */
export function sessionsAndArchived(after?: string): Promise<ListPart<SessionAnswer>> {
  const from = after === undefined ? '' : `&after=${encodeURIComponent(after)}`;
  return askHost('GET', `/api/sessions?archived=true&limit=200${from}`);
}

/** Those of the sessions that lists have: no side chats, nor sessions of subagents. @throws as the routes of a session */
export async function sessionsOf(ids: readonly string[]): Promise<SessionAnswer[]> {
  const { items } = await askHost<{ items: SessionAnswer[] }>(
    'GET',
    `/api/sessions?archived=true&limit=200&ids=${ids.map(encodeURIComponent).join(',')}`,
  );
  return items;
}

/** The messages that match, best first. @throws as the routes of a session */
export async function findMessages(query: string): Promise<FoundMessage[]> {
  return (await askHost<{ items: FoundMessage[] }>('GET', `/api/search?q=${encodeURIComponent(query)}`)).items;
}

/** The models that the user can choose from. @throws as the routes of a session */
export function readModels(): Promise<Offered> {
  return askHost('GET', '/api/models');
}

/** The agents that the user can open sessions with. @throws as the routes of a session */
export function readAgents(): Promise<Agents> {
  return askHost('GET', '/api/agents');
}

/** The field of a message's metadata, or of a request for another answer, that chooses the model. */
export function modelField(choice: PickedModel | null): object {
  if (choice === null) return {};
  const { model, variant } = choice;
  return { model: variant === undefined ? model : { ...splitModelRef(model), variant } };
}

/** The JSON that a route answers with. `idempotencyKey`: of a command, so that a repeat is not carried out again. */
export async function askHost<T>(method: string, url: string, body?: unknown, idempotencyKey?: string): Promise<T> {
  const response = await answered(url, {
    method,
    ...(body !== undefined && {
      headers: { 'content-type': 'application/json', ...(idempotencyKey && { 'idempotency-key': idempotencyKey }) },
      body: JSON.stringify(body),
    }),
  });
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** The answer to a request. @throws {ProblemError} if the server refuses it, or another error if it cannot be reached */
export async function answered(url: string, init: RequestInit): Promise<Response> {
  const response = await access.fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_MS) });
  if (!response.ok) throw problemOfResponse(response.status, await response.text());
  return response;
}
