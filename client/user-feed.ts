import { setTimeout as delay } from 'node:timers/promises';
import { canonicalJson } from '../domain/canonical-json.ts';
import { type OpenSession, titleOf } from '../domain/rendezvous.ts';
import { statusOf } from '../domain/status.ts';
import type { Db } from '../store/db.ts';
import { newestOpen, openAmong, type OpenRow } from '../store/rendezvous.ts';
import { Bell } from './watch.ts';

/** Of a user with more open sessions, the newest are told of at first. */
const FIRST_TOLD = 200;
/** Beyond this the oldest leave the list. */
const MOST_KNOWN = 1_000;
/** A user's sessions are read at most this often, whatever happens to them. */
const READ_EVERY_MS = 200;
const RETRY_MS = 1_000;
/** Postgres may be away for this many readings in a row before readers are told. */
const MAX_FAILURES = 30;

/** What is known of a user's open sessions. Replaced when something changes, never changed: readers compare. */
export type Known = ReadonlyMap<string, OpenSession>;

/** One who follows a feed. */
export interface FeedReader {
  bell: Bell;
  /** All has been read since it came. */
  isReady: boolean;
}

export interface FeedOptions {
  db: Db;
  userId: string;
  /** Everything is read again about this often, for pointers may get lost. */
  readAllMs: number;
  onFailure(error: unknown): void;
}

/**
 * The open sessions of one user, for all of the user's readers in this process. Owns:
 *
 * 1. One reading at a time, at most one in 200 ms, of the sessions that were told of; all of them when a reader comes,
 *    when something may have been missed, and from time to time.
 * 2. What was asked for while a reading was under way, or whose reading failed, is read by the next one.
 * 3. `known` is replaced only when something differs; then every reader's bell rings.
 */
export class UserFeed {
  known: Known = new Map();
  /** Set when Postgres was away for too long: the feed has ended. */
  failure: Error | undefined;
  private due: Set<string> | 'all' = new Set();
  private readonly options: FeedOptions;
  private readonly bell = new Bell();
  private readonly readers = new Set<FeedReader>();
  private readonly ended = new AbortController();

  constructor(options: FeedOptions) {
    this.options = options;
    void this.run();
  }

  get isOver(): boolean {
    return this.ended.signal.aborted;
  }

  join(): FeedReader {
    const reader = { bell: new Bell(), isReady: false };
    this.readers.add(reader);
    this.readAll();
    return reader;
  }

  /** @returns whether it was the last one, and the feed has ended */
  leave(reader: FeedReader): boolean {
    this.readers.delete(reader);
    if (this.readers.size > 0) return false;
    this.end();
    return true;
  }

  /** Something has happened to a session. */
  read(sessionId: string): void {
    if (this.due !== 'all') this.due.add(sessionId);
    this.bell.ring();
  }

  /** Something may have been missed. */
  readAll(): void {
    this.due = 'all';
    this.bell.ring();
  }

  end(): void {
    this.ended.abort();
    this.ringReaders();
  }

  private async run(): Promise<void> {
    const { signal } = this.ended;
    let failures = 0;
    while (!signal.aborted) {
      // Feeds that began together need not read together.
      await this.bell.wait(this.options.readAllMs * (0.75 + Math.random() / 2), signal);
      if (signal.aborted) return;
      const due = this.due === 'all' || this.due.size === 0 ? 'all' : this.due;
      this.due = new Set();
      try {
        await this.readDue(due);
        failures = 0;
      } catch (error) {
        this.options.onFailure(error);
        this.putBack(due);
        if (++failures > MAX_FAILURES) {
          this.failure = error instanceof Error ? error : new Error(String(error));
          return this.end();
        }
      }
      const pause = failures > 0 ? RETRY_MS : READ_EVERY_MS;
      await delay(pause, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  private putBack(due: Set<string> | 'all'): void {
    if (due === 'all' || this.due === 'all') this.due = 'all';
    else for (const id of due) this.due.add(id);
    this.bell.ring();
  }

  private async readDue(due: Set<string> | 'all'): Promise<void> {
    const { db, userId } = this.options;
    const waiting = due === 'all' ? [...this.readers].filter((reader) => !reader.isReady) : [];
    const rows = due === 'all' ? await this.allRows() : await openAmong(db, userId, [...due]);
    const kept = due === 'all' ? [] : [...this.known].filter(([id]) => !due.has(id));
    const next = new Map([...kept, ...rows.map((row) => [row.session_id, this.sessionOf(row)] as const)]);
    for (const id of [...next.keys()].toSorted().slice(0, Math.max(0, next.size - MOST_KNOWN))) next.delete(id);
    const isSame = next.size === this.known.size && [...next].every(([id, session]) => this.known.get(id) === session);
    if (!isSame) this.known = next;
    for (const reader of waiting) reader.isReady = true;
    if (!isSame || waiting.length > 0) this.ringReaders();
  }

  /** The newest ones, and what is still open of those that are known besides. */
  private async allRows(): Promise<OpenRow[]> {
    const { db, userId } = this.options;
    const rows = await newestOpen(db, userId, FIRST_TOLD);
    const found = new Set(rows.map((row) => row.session_id));
    const others = [...this.known.keys()].filter((id) => !found.has(id));
    return others.length === 0 ? rows : [...rows, ...(await openAmong(db, userId, others))];
  }

  /** The same object as before where nothing has changed. */
  private sessionOf(row: OpenRow): OpenSession {
    const { session_id, project_id, phase, agent, alias, updated_at } = row;
    const { state } = statusOf(row.status);
    const title = titleOf(row.first_text);
    const session = { session_id, project_id, phase, agent, state, title, alias, updated_at };
    const before = this.known.get(session_id);
    return before && canonicalJson({ ...before }) === canonicalJson(session) ? before : session;
  }

  private ringReaders(): void {
    for (const { bell } of this.readers) bell.ring();
  }
}
