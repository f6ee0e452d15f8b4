import type { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import type { SessionStatus } from '../domain/runs.ts';
import { ID_PATTERN } from '../domain/command-table.ts';
import { currentRun } from '../store/answers.ts';
import type { Db } from '../store/db.ts';
import { readEvents, readToolOutput, type SessionEvent } from '../store/events.ts';
import { messagePosition, readMessages, type StoredMessage } from '../store/messages.ts';
import { findSession, listSessions, readSession, type SessionView } from '../store/sessions.ts';
import { readStatus } from '../store/status.ts';
import { parseInput } from '../wire/input.ts';
import { logFilter, messageFilter, sessionFilter } from '../wire/requests.ts';
import { messageNotFound, sessionNotFound } from './refusals.ts';

/** A page of a list, and the cursor of the next page; null: this is the last page. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

/** Selects messages before or after a given one; by default the last ones. */
export type MessageFilter = z.input<typeof messageFilter>;

/**
 * Reads for the owner of a session; all other users get `SessionNotFound`. Pages have at most 200 items, 50 by default;
 * pages of messages and of the log also at most 8 MiB, unless one item is larger.
 * @throws {PerdureError} `BadRequest`, naming the invalid field
 */
export class Reads {
  private readonly db: Db;

  constructor(db: Db) {
    this.db = db;
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
    return view;
  }

  /** A user's sessions, newest first. */
  async sessions(user: string, filter: z.input<typeof sessionFilter> = {}): Promise<Page<SessionView>> {
    const given = parseInput(sessionFilter, filter);
    const rows = await listSessions(this.db, user, { ...given, limit: given.limit + 1 });
    const items = rows.slice(0, given.limit);
    return { items, next: rows.length > given.limit ? (items.at(-1)?.session.session_id ?? null) : null };
  }

  /** UIMessages in order; `next` continues towards older ones, or with `after` towards newer ones. */
  async messages(user: string, id: string, filter: MessageFilter = {}): Promise<Page<StoredMessage>> {
    const { limit, hidden, ...given } = parseInput(messageFilter, filter);
    const sessionId = await this.sessionId(user, id);
    const after = await this.position(sessionId, given.after);
    const before = await this.position(sessionId, given.before);
    const { items, more } = await readMessages(this.db, sessionId, { after, before, hidden, limit });
    const next = more ? (items.at(after === undefined ? 0 : -1)?.id ?? null) : null;
    return { items: items.map((message) => withSession(message, sessionId)), next };
  }

  /** Whether a session has a message with this id, including hidden ones. Does not check the owner. */
  async hasMessage(sessionId: string, messageId: string): Promise<boolean> {
    if (!ID_PATTERN.test(messageId)) return false;
    return (await messagePosition(this.db, sessionId, messageId)) !== undefined;
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
    return (await currentRun(this.db, sessionId)) ?? undefined;
  }

  /** The session's log after event `after`, oldest first. */
  async log(user: string, id: string, filter: z.input<typeof logFilter> = {}): Promise<Page<SessionEvent>> {
    const { after, limit } = parseInput(logFilter, filter);
    const { items, more } = await readEvents(this.db, await this.sessionId(user, id), after, limit);
    return { items, next: more ? String(items.at(-1)?.seq) : null };
  }

  /** The full output of a tool call that was truncated for the model. */
  async toolOutput(user: string, id: string, toolCallId: string): Promise<string> {
    const sessionId = await this.sessionId(user, id);
    const output = toolCallId.includes('\0') ? undefined : await readToolOutput(this.db, sessionId, toolCallId);
    if (output !== undefined) return output;
    throw new PerdureError('ToolOutputNotFound', 'no full output is stored for this tool call');
  }

  private async position(sessionId: string, messageId: string | undefined): Promise<number | undefined> {
    if (messageId === undefined) return undefined;
    const position = !ID_PATTERN.test(messageId) ? undefined : await messagePosition(this.db, sessionId, messageId);
    if (position === undefined) throw messageNotFound();
    return position;
  }
}

/** Adds the session id to the metadata of a message. */
function withSession(message: StoredMessage, session_id: string): StoredMessage {
  return { ...message, metadata: { ...message.metadata, session_id } };
}
