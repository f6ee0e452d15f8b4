import type pg from 'pg';
import type { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import { readEpoch, readTurns } from '../store/console-turns.ts';
import type { SessionEvent } from '../store/events.ts';
import { readNumbers, type StoredNumbers } from '../store/numbers.ts';
import { readPast } from '../store/past.ts';
import { readPrompt } from '../store/prompts.ts';
import { askForReplay, readReplay } from '../store/replays.ts';
import { findSession, listAllSessions, readOwner, type SessionView } from '../store/sessions.ts';
import type { ConsolePast, ConsoleReplay, ConsoleTurn } from '../wire/console.ts';
import { parseInput } from '../wire/input.ts';
import { consoleSessionsFilter, type logFilter, numbersFilter, pastFilter, turnsFilter } from '../wire/requests.ts';
import { type ListPage, promptNotFound, type Reads, type SystemPrompt, systemPromptOf } from './reads.ts';
import { sessionNotFound } from './refusal-errors.ts';
import { UserLimiter } from './wait/limiter.ts';

/** Who reads in the console. */
export interface ConsoleReader {
  user: string;
  /** May read the sessions of all users. */
  readsAll: boolean;
}

/** A session that a viewer may read. */
interface Viewed {
  sessionId: string;
  owner: string;
}

/** A session for the console, without the address of its workflow. */
export type ConsoleSession = SessionView & { is_own: boolean; epoch: number };

/** What is read of other users: a session, or a page of the list, of one user or (null) of all. */
type ForeignRead = { session: string } | { list_of: string | null };

/** Replays that wait or run: a worker carries out one at a time. One user does not keep all others from theirs. */
const MOST_REPLAYS = { all: 20, ofUser: 5 };
/** Reading the numbers of all users may take seconds: few at a time, so that they leave connections to other reads. */
const READING_NUMBERS = 2;

/** What the console reads: one's own sessions, or those of all users. It changes none. */
export class ConsoleReads {
  private readonly db: pg.Pool;
  private readonly readingNumbers = new UserLimiter(READING_NUMBERS);
  private readonly reads: Reads;
  private readonly onForeign: (reader: string, what: ForeignRead) => void;

  /** @param onForeign is called before a viewer gets something of other users */
  constructor(db: pg.Pool, reads: Reads, onForeign: (reader: string, what: ForeignRead) => void) {
    this.db = db;
    this.reads = reads;
    this.onForeign = onForeign;
  }

  /**
   * Sessions, newest first, with side chats, children and archived ones: of `user`, with `all` of all users, or one's own.
   * @throws {PerdureError} `Forbidden`
   */
  async sessions(
    viewer: ConsoleReader,
    filter: z.input<typeof consoleSessionsFilter> = {},
  ): Promise<ListPage<SessionView>> {
    const { all, user, after, limit } = parseInput(consoleSessionsFilter, filter);
    const of = this.usersOf(viewer, { all, user });
    const rows = await listAllSessions(this.db, { user: of, after: after ?? null, limit: limit + 1 });
    const items = rows.slice(0, limit);
    return { items, next: rows.length > limit ? (items.at(-1)?.session.session_id ?? null) : null };
  }

  /**
   * What happened in a time range, in the sessions that `sessions` lists with the same filter.
   * @throws {PerdureError} `Forbidden`
   * @throws {LeftTheLineError} `signal` fired while it waited for other readings
   */
  async numbers(
    viewer: ConsoleReader,
    filter: z.input<typeof numbersFilter> = {},
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<StoredNumbers> {
    const { range, all, user } = parseInput(numbersFilter, filter);
    const of = this.usersOf(viewer, { all, user });
    return this.readingNumbers.run(viewer.user, () => readNumbers(this.db, { range, user: of }), signal);
  }

  /** @throws {PerdureError} `SessionNotFound` */
  async session(viewer: ConsoleReader, id: string): Promise<ConsoleSession> {
    const { sessionId, owner } = await this.viewed(viewer, id);
    const [view, epoch = 0] = await Promise.all([this.reads.session(owner, sessionId), readEpoch(this.db, sessionId)]);
    return { ...view, is_own: owner === viewer.user, epoch };
  }

  /** Turns, newest first. @throws {PerdureError} `SessionNotFound` */
  async turns(
    viewer: ConsoleReader,
    id: string,
    filter: z.input<typeof turnsFilter> = {},
  ): Promise<ListPage<ConsoleTurn>> {
    const given = parseInput(turnsFilter, filter);
    const { sessionId } = await this.viewed(viewer, id);
    const { items, more } = await readTurns(this.db, sessionId, given);
    // One that was erased in between has none either.
    if (items.length === 0) await this.viewed(viewer, id);
    return { items, next: more ? String(items.at(-1)?.run_seq) : null };
  }

  /** The event log, oldest first. @throws {PerdureError} `SessionNotFound` */
  async log(
    viewer: ConsoleReader,
    id: string,
    filter: z.input<typeof logFilter> = {},
  ): Promise<ListPage<SessionEvent>> {
    const { sessionId, owner } = await this.viewed(viewer, id);
    return this.reads.log(owner, sessionId, filter);
  }

  /**
   * A session as it stood after an event of its log.
   * @throws {PerdureError} `SessionNotFound`, `NotFound`: the log has no such event
   */
  async past(
    viewer: ConsoleReader,
    id: string,
    seq: string,
    filter: z.input<typeof pastFilter> = {},
  ): Promise<ConsolePast> {
    const { limit } = parseInput(pastFilter, filter);
    const { sessionId } = await this.viewed(viewer, id);
    const past = /^\d{1,15}$/.test(seq) ? await readPast(this.db, sessionId, { seq: Number(seq), limit }) : undefined;
    if (past === undefined) throw new PerdureError('NotFound', 'the event log has no such event');
    return past;
  }

  /** A system prompt of a session. @throws {PerdureError} `SessionNotFound`, `PromptNotFound` */
  async prompt(viewer: ConsoleReader, id: string, digest: string): Promise<SystemPrompt> {
    const { sessionId } = await this.viewed(viewer, id);
    const sections = /^[0-9a-f]{64}$/.test(digest) ? await readPrompt(this.db, sessionId, digest) : undefined;
    if (sections === undefined) throw promptNotFound('this session has no such system prompt');
    return systemPromptOf(digest, sections);
  }

  /** The newest replay of a session's histories. @throws {PerdureError} `SessionNotFound` */
  async replay(viewer: ConsoleReader, id: string): Promise<ConsoleReplay> {
    const { sessionId } = await this.viewed(viewer, id);
    return readReplay(this.db, sessionId);
  }

  /**
   * Asks the workers to replay a session's histories against their workflow code, unless one that was asked for is open.
   * @returns that replay, which `replay` tells the result of
   * @throws {PerdureError} `SessionNotFound`, `TooMany`
   */
  async askForReplay(viewer: ConsoleReader, id: string): Promise<ConsoleReplay> {
    const { sessionId } = await this.viewed(viewer, id);
    const isNew = await askForReplay(this.db, sessionId, MOST_REPLAYS);
    const replay = await readReplay(this.db, sessionId);
    if (isNew || replay.state === 'queued' || replay.state === 'running') return replay;
    const { all, ofUser } = MOST_REPLAYS;
    const most = `at most ${all} replays that wait or run, and ${ofUser} of the sessions of one user`;
    throw new PerdureError('TooMany', `expected ${most}; try again later`);
  }

  /** Whose sessions are asked for; null: those of all users. @throws {PerdureError} `Forbidden` */
  private usersOf(viewer: ConsoleReader, { all, user }: { all: boolean; user?: string | undefined }): string | null {
    const of = user ?? (all ? null : viewer.user);
    if (of === viewer.user) return of;
    if (!viewer.readsAll) throw new PerdureError('Forbidden', "you may not list other users' sessions");
    this.onForeign(viewer.user, { list_of: of });
    return of;
  }

  /** Another user's session is found by its id only: aliases belong to their users. */
  private async viewed({ user, readsAll }: ConsoleReader, id: string): Promise<Viewed> {
    const own = await findSession(this.db, user, id);
    if (own !== undefined) return { sessionId: own.session_id, owner: user };
    const owner = readsAll && !id.includes('\0') ? await readOwner(this.db, id) : undefined;
    if (owner === undefined) throw sessionNotFound();
    this.onForeign(user, { session: id });
    return { sessionId: id, owner };
  }
}
