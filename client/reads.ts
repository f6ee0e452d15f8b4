import type { z } from 'zod';
import { ID_PATTERN } from '../domain/command-table.ts';
import { PerdureError } from '../domain/errors.ts';
import type { SessionStatus } from '../domain/runs.ts';
import type { Todo } from '../domain/todo.ts';
import { headRun } from '../store/answers.ts';
import type { Db } from '../store/db.ts';
import { readEvents, readToolOutput, type SessionEvent } from '../store/events.ts';
import { messagePosition, readMessages, type StoredMessage } from '../store/messages.ts';
import { readPromptOfUser } from '../store/prompts.ts';
import { type SearchHit, searchMessages } from '../store/search.ts';
import { findSession, listSessions, readSession, type SessionView } from '../store/sessions.ts';
import { readStatus } from '../store/status.ts';
import { listTodos } from '../store/tools.ts';
import { readTurn, type Turn } from '../store/turns.ts';
import { parseInput } from '../wire/input.ts';
import { logFilter, messageFilter, searchFilter, sessionFilter } from '../wire/requests.ts';
import type { Catalog } from './catalog.ts';
import { messageNotFound, sessionNotFound } from './refusal-errors.ts';
import { UserLimiter } from './wait/limiter.ts';

/** A search may read a thousand long messages: few at a time, so that they leave connections and Postgres to other reads. */
const SEARCHES = 2;

/** A page of a list, and the cursor of the next page; null: this is the last page. */
export interface ListPage<T> {
  items: T[];
  next: string | null;
}

/** A system prompt by its sections, in their order; an empty one is a text without characters. */
export interface SystemPrompt {
  /** SHA-256 of the sections, as hex. */
  digest: string;
  sections: Record<'agent' | 'instructions' | 'skills' | 'environment' | 'tools', string>;
}

export type { Turn };

/** Selects messages before or after a given one; by default the last ones. */
export type MessageFilter = z.input<typeof messageFilter>;

/**
 * Reads for the owner of a session; all other users get `SessionNotFound`. Pages have at most 200 items, 50 by default;
 * pages of messages and of the log also at most 8 MiB, unless one item is larger.
 * @throws {PerdureError} `BadRequest`, naming the invalid field
 */
export class Reads {
  private readonly db: Db;
  private readonly catalog: Catalog | undefined;
  private readonly searches = new UserLimiter(SEARCHES);

  constructor(db: Db, catalog: Catalog | undefined) {
    this.db = db;
    this.catalog = catalog;
  }

  /** The id of a session, given its id or an alias. */
  async sessionId(user: string, id: string): Promise<string> {
    const session = await findSession(this.db, user, id);
    if (session === undefined) throw sessionNotFound();
    return session.session_id;
  }

  async session(user: string, id: string): Promise<SessionView> {
    const view = await readSession(this.db, user, await this.sessionId(user, id));
    if (view === undefined) throw sessionNotFound();
    const { window, chat } = view;
    if (!window) return view;
    const model = window.model ?? chat.model;
    const limit = model === null ? undefined : this.catalog?.models.limitOf?.(model, chat.agent);
    return { ...view, window: { ...window, limit: limit ?? null } };
  }

  /** A user's sessions, newest first. */
  async sessions(user: string, filter: z.input<typeof sessionFilter> = {}): Promise<ListPage<SessionView>> {
    const given = parseInput(sessionFilter, filter);
    const rows = await listSessions(this.db, user, { ...given, limit: given.limit + 1 });
    const items = rows.slice(0, given.limit);
    return { items, next: rows.length > given.limit ? (items.at(-1)?.session.session_id ?? null) : null };
  }

  /** UIMessages in order; `next` continues towards older ones, or with `after` towards newer ones. */
  async messages(user: string, id: string, filter: MessageFilter = {}): Promise<ListPage<StoredMessage>> {
    const { limit, hidden, times, ...given } = parseInput(messageFilter, filter);
    const sessionId = await this.sessionId(user, id);
    const after = await this.position(sessionId, given.after);
    const before = await this.position(sessionId, given.before);
    const { items, more } = await readMessages(this.db, sessionId, { after, before, hidden, times, limit });
    const next = more ? (items.at(after === undefined ? 0 : -1)?.id ?? null) : null;
    return { items: items.map((message) => withSession(message, sessionId)), next };
  }

  /** A message by its id, also if it is hidden. Does not check the owner. @throws {PerdureError} `MessageNotFound` */
  async message(sessionId: string, messageId: string): Promise<StoredMessage> {
    const at = await this.position(sessionId, messageId);
    const after = at === undefined ? undefined : at - 1;
    const { items } = await readMessages(this.db, sessionId, { after, hidden: true, limit: 1 });
    const [found] = items;
    if (found === undefined) throw messageNotFound();
    return withSession(found, sessionId);
  }

  /** The todos of the session's project, oldest first; none without a project. */
  async todos(user: string, id: string): Promise<{ items: Todo[] }> {
    const session = await findSession(this.db, user, id);
    if (session === undefined) throw sessionNotFound();
    return { items: session.project_id === null ? [] : await listTodos(this.db, session.project_id) };
  }

  async status(user: string, id: string): Promise<SessionStatus> {
    const status = await readStatus(this.db, await this.sessionId(user, id));
    if (status === undefined) throw sessionNotFound();
    return status;
  }

  /**
   * Number of the run in flight, or else of the next queued run; undefined: the session is idle. Does not check the
   * owner.
   */
  async currentRun(sessionId: string): Promise<number | undefined> {
    return (await headRun(this.db, sessionId)) ?? undefined;
  }

  /**
   * The turn with this number, or the newest one of a message, or the newest one of the conversation, and what came of it.
   * Undefined: there is none.
   * @throws {PerdureError} `SessionNotFound`, `MessageNotFound`
   */
  async turn(
    user: string,
    id: string,
    { run = null, message = null }: { run?: number | null | undefined; message?: string | null | undefined } = {},
  ): Promise<Turn | undefined> {
    const sessionId = await this.sessionId(user, id);
    if (message !== null && !ID_PATTERN.test(message)) throw messageNotFound();
    const turn = await readTurn(this.db, sessionId, { run, message });
    if (turn === undefined && message !== null) throw messageNotFound();
    return turn;
  }

  /** The session's log after event `after`, oldest first. */
  async log(user: string, id: string, filter: z.input<typeof logFilter> = {}): Promise<ListPage<SessionEvent>> {
    const { after, limit } = parseInput(logFilter, filter);
    const { items, more } = await readEvents(this.db, await this.sessionId(user, id), after, limit);
    return { items, next: more ? String(items.at(-1)?.seq) : null };
  }

  /**
   * The best matches among all messages of a user whose turns are over, visible or hidden, best first. `q` is read as web
   * search engines do: words, "phrases", or, -not. Words match in any case; PERDURE_SEARCH_LANGUAGE says in which forms.
   * One search of a user runs at a time.
   * @throws {LeftTheLineError} `signal` fired while it waited for other searches
   */
  async search(
    user: string,
    filter: z.input<typeof searchFilter>,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<{ items: SearchHit[] }> {
    const { q, limit } = parseInput(searchFilter, filter);
    return { items: await this.searches.run(user, () => searchMessages(this.db, user, q, limit), signal) };
  }

  /** The full output of a tool call that was truncated for the model. */
  async toolOutput(user: string, id: string, toolCallId: string): Promise<string> {
    const sessionId = await this.sessionId(user, id);
    const output = toolCallId.includes('\0') ? undefined : await readToolOutput(this.db, sessionId, toolCallId);
    if (output !== undefined) return output;
    throw new PerdureError('ToolOutputNotFound', 'no full output is stored for this tool call');
  }

  /** The system prompt with a digest, as an answer's `metadata.system_prompt_digest` has it, of any of the user's sessions. */
  async prompt(user: string, digest: string): Promise<SystemPrompt> {
    const sections = /^[0-9a-f]{64}$/.test(digest) ? await readPromptOfUser(this.db, user, digest) : undefined;
    if (sections === undefined) throw promptNotFound('none of your sessions has this system prompt');
    return systemPromptOf(digest, sections);
  }

  private async position(sessionId: string, messageId: string | undefined): Promise<number | undefined> {
    if (messageId === undefined) return undefined;
    const position = !ID_PATTERN.test(messageId) ? undefined : await messagePosition(this.db, sessionId, messageId);
    if (position === undefined) throw messageNotFound();
    return position;
  }
}

export function promptNotFound(message: string): PerdureError {
  return new PerdureError('PromptNotFound', message);
}

/** @param sections the stored texts, in order */
export function systemPromptOf(digest: string, sections: readonly string[]): SystemPrompt {
  const [agent = '', instructions = '', skills = '', environment = '', tools = ''] = sections;
  return { digest, sections: { agent, instructions, skills, environment, tools } };
}

/** Adds the session id to the metadata of a message. */
function withSession(message: StoredMessage, session_id: string): StoredMessage {
  return { ...message, metadata: { ...message.metadata, session_id } };
}
