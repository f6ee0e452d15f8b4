import type { Client } from '@temporalio/client';
import type { UIMessageChunk } from 'ai';
import type pg from 'pg';
import type { z } from 'zod';
import type { Bus } from '../bus/bus.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { newId } from '../domain/ids.ts';
import type { RendezvousEvent } from '../domain/rendezvous.ts';
import { byteLength, cleanJson } from '../domain/text.ts';
import { isAlias } from '../domain/alias.ts';
import { InvalidInput, parseInput } from '../wire/input.ts';
import { openBody } from '../wire/requests.ts';
import { createPool } from '../store/db.ts';
import { openSession, type SessionView } from '../store/sessions.ts';
import { agentOf, type Catalog, modelOf, workspaceOf } from './catalog.ts';
import { type Commands, createCommands } from './commands.ts';
import { withinMs } from './deadline.ts';
import { Erasure } from './erasure.ts';
import { AnswerReading } from './follow.ts';
import { Limiter } from './limiter.ts';
import type { ClientLog } from './log.ts';
import type { MessageInput } from './message.ts';
import { keepReading } from './reading.ts';
import { Reads } from './reads.ts';
import { sessionNotFound } from './refusals.ts';
import { Rendezvous } from './rendezvous.ts';
import { isSessionId, Submission, type Submitted } from './submission.ts';
import { type TurnEvent, TurnReading } from './turns.ts';
import { SessionWatch } from './watch.ts';

const MAX_MESSAGE_BYTES = 256 * 1024;
const HEALTH_MS = 1_000;
const MAX_METADATA_BYTES = 16 * 1024;
const MAX_QUEUE = 100;
const COMMAND_CONNECTIONS = 10;
const READ_CONNECTIONS = 10;
/** Read connections that streams leave free for requests and the change poll. */
const NOT_FOR_STREAMS = 2;

export interface ClientOptions {
  /**
   * A Postgres URL, for which two pools are created so that readers never delay a command; or a pool of the caller's,
   * which commands and readers share and the caller ends.
   */
  database: string | pg.Pool;
  /** Maximum number of connections for messages and other commands; default 10. Not with a pool. */
  commandConnections?: number;
  /** Maximum number of connections for reads; default 10. Not with a pool. */
  readConnections?: number;
  /** A bus that the caller closes. Unset: the client creates one on `directDatabaseUrl`. */
  bus?: Bus;
  /** Postgres without a pooler, for LISTEN; required with a pool and without a bus. Unset: `database`. */
  directDatabaseUrl?: string;
  /** Created by `temporalClient`. */
  temporal: Client;
  /** Requested agents and models are checked against it. Unset: no check. */
  catalog?: Catalog;
  maxMessageBytes?: number;
  /** Maximum number of messages queued or being answered per session. */
  maxQueue?: number;
  log?: ClientLog;
}

/** Input of `openSession`: the body of POST /api/sessions. */
export type OpenInput = z.input<typeof openBody>;

/** The signal ends the reading; the run continues. */
interface ReadOptions {
  signal?: AbortSignal;
}

/**
 * The API of sessions, for backend services and the HTTP host. Sessions are addressed by id or by an alias of their
 * user.
 */
export class PerdureClient {
  readonly commands: Commands;
  readonly reads: Reads;
  private readonly db: pg.Pool;
  private readonly readDb: pg.Pool;
  private readonly streams: Limiter;
  private readonly watch: SessionWatch;
  private readonly sessionFeeds: Rendezvous;
  private readonly submission: Submission;
  private readonly erasure: Erasure;
  private readonly options: ClientOptions;
  private readonly bus: Bus;
  private readonly log: ClientLog;

  constructor(options: ClientOptions) {
    const { temporal, catalog, maxMessageBytes = MAX_MESSAGE_BYTES, maxQueue = MAX_QUEUE } = options;
    refuseInvalid(options);
    this.options = options;
    this.log = options.log ?? { warn: () => {} };
    this.db = this.poolOf(options.commandConnections ?? COMMAND_CONNECTIONS);
    this.readDb = this.poolOf(options.readConnections ?? READ_CONNECTIONS);
    this.bus = options.bus ?? this.ownBus();
    const { db, readDb, bus, log } = this;
    this.streams = new Limiter(Math.max(1, readDb.options.max - NOT_FOR_STREAMS));
    this.watch = new SessionWatch(bus, { db: readDb, log });
    this.sessionFeeds = new Rendezvous({ db: readDb, bus, log, limit: this.streams.run });
    this.commands = createCommands({ db, temporal });
    this.reads = new Reads(readDb);
    this.erasure = new Erasure({ db, temporal, bus });
    this.submission = new Submission({ db, temporal, bus, log, catalog, maxMessageBytes, maxQueue });
  }

  /**
   * Opens a session for a user.
   * @throws {PerdureError} `AgentNotConfigured`, `ModelNotConfigured`, `ProjectNotFound`, `BadRequest`, `TooLarge`
   */
  async openSession(user: string, given: OpenInput = {}): Promise<SessionView> {
    const input = parseInput(openBody, given);
    const { catalog } = this.options;
    const metadata = cleanJson(input.metadata ?? {}) as Record<string, unknown>;
    if (byteLength(JSON.stringify(metadata)) > MAX_METADATA_BYTES) {
      throw new InvalidInput([{ field: 'metadata', expected: `at most ${MAX_METADATA_BYTES} bytes` }], 'TooLarge');
    }
    const sessionId = newId('ses');
    const session = {
      sessionId,
      userId: user,
      agent: agentOf(catalog, input.agent),
      workspaceRoot: workspaceOf(catalog, user, input.workspace_root),
      model: modelOf(catalog, input.model),
      metadata,
    };
    await openSession(this.db, session, input.project_id ?? null);
    this.bus.publish({ session: sessionId, kind: 'status' });
    return this.reads.session(user, sessionId);
  }

  /**
   * The id of a user's session, given its id or alias; undefined: an alias without a session yet.
   * @throws {PerdureError} `SessionNotFound` for an unknown id, another user's session, or an invalid alias
   */
  async findSession(user: string, id: string): Promise<string | undefined> {
    if (isSessionId(id)) return this.reads.sessionId(user, id);
    if (!isAlias(id)) throw sessionNotFound();
    return this.submission.resolve(user, id);
  }

  /**
   * The run of a user's session that can be followed; undefined: none is in flight. Queued with the reads of streams,
   * without a timeout, so that many readers who join at once are all served.
   * @throws {PerdureError} `SessionNotFound`, as `findSession`
   */
  runInFlight(user: string, id: string): Promise<{ session: string; run: number } | undefined> {
    return this.streams.run(async () => {
      const session = await this.findSession(user, id);
      const run = session === undefined ? undefined : await this.reads.currentRun(session);
      return session === undefined || run === undefined ? undefined : { session, run };
    });
  }

  /**
   * The id of a user's session to follow, given its id or alias; queued like `runInFlight`.
   * @throws {PerdureError} `SessionNotFound`
   */
  sessionToFollow(user: string, id: string): Promise<string> {
    return this.streams.run(() => this.reads.sessionId(user, id));
  }

  /**
   * Accepts a message. Once this returns, the message is stored and will be answered despite crashes. With `open`, an
   * alias without a session opens one with the default agent.
   * @throws {PerdureError} `SessionNotFound`, `MessageConflict`, `TooMany`, `TooLarge`, `BadRequest`,
   * `ModelNotConfigured`
   */
  submit(user: string, session: string, message: MessageInput, options?: { open?: boolean }): Promise<Submitted> {
    return this.submission.submit(user, session, message, options);
  }

  /** A run's answer as UI message chunks, from the first chunk to the end, live. */
  async *follow(user: string, session: string, runSeq: number, options?: ReadOptions): AsyncGenerator<UIMessageChunk> {
    for await (const chunks of this.followInBatches(user, session, runSeq, options)) yield* chunks;
  }

  /** As `follow`, in batches of one reading each. */
  async *followInBatches(
    user: string,
    session: string,
    runSeq: number,
    { signal }: ReadOptions = {},
  ): AsyncGenerator<UIMessageChunk[]> {
    const sessionId = await this.idToFollow(user, session);
    const answer = new AnswerReading(this.readDb, { userId: user, sessionId, runSeq });
    yield* keepReading(this.watch, {
      sessionId,
      signal,
      // The status changes just before the first text; reading it at once would delay that text.
      urgency: ({ kind, run }) => (kind === 'status' ? 'soon' : kind === 'stream' && run === runSeq ? 'now' : 'never'),
      read: () => this.streams.run(() => answer.read()),
      onFailure: (error) => this.log.warn({ err: error, session: sessionId }, 'an answer could not be read'),
    });
  }

  /**
   * A session's status, then every change of status and state, and the turns that begin and end. Ends with the signal.
   */
  async *events(user: string, session: string, { signal }: ReadOptions = {}): AsyncGenerator<TurnEvent> {
    const sessionId = await this.idToFollow(user, session);
    const turns = new TurnReading(this.readDb, user, sessionId);
    const readings = keepReading(this.watch, {
      sessionId,
      signal,
      urgency: ({ kind }) => (kind === 'stream' ? 'never' : 'now'),
      read: () => this.streams.run(() => turns.read()),
      onFailure: (error) => this.log.warn({ err: error, session: sessionId }, 'a status could not be read'),
    });
    for await (const events of readings) yield* events;
  }

  /**
   * A user's open sessions (not closed, not archived, no side chats; the newest 200), each as `session_open`, then
   * `ready`, then every change. Ends with the signal.
   */
  async *rendezvous(user: string, options?: ReadOptions): AsyncGenerator<RendezvousEvent> {
    for await (const events of this.rendezvousInBatches(user, options)) yield* events;
  }

  /** As `rendezvous`, in batches of one reading each. */
  rendezvousInBatches(user: string, options: ReadOptions = {}): AsyncGenerator<RendezvousEvent[]> {
    return this.sessionFeeds.follow(user, options);
  }

  /**
   * Deletes all rows of a session and its side chats, ends their runs, and queues their files for removal by workers.
   * @throws {PerdureError} `SessionNotFound`, also for a repeated call
   */
  eraseSession(user: string, session: string): Promise<void> {
    return this.erasure.session(user, session);
  }

  /** Deletes all data of a user: sessions, projects, `user:` state and files. Repeatable. */
  eraseUser(user: string): Promise<void> {
    return this.erasure.user(user);
  }

  /** Whether Postgres and Temporal respond within a second each. */
  async health(): Promise<{ postgres: boolean; temporal: boolean }> {
    const { temporal } = this.options;
    const deadline = Date.now() + HEALTH_MS;
    const asked = temporal.connection.withDeadline(deadline, () => temporal.workflowService.getSystemInfo({}));
    const [postgres, server] = await Promise.allSettled([
      withinMs(HEALTH_MS, this.db.query('SELECT FROM schema_migrations LIMIT 1')),
      withinMs(HEALTH_MS, asked),
    ]);
    return { postgres: postgres.status === 'fulfilled', temporal: server.status === 'fulfilled' };
  }

  /** Ends all streams and closes the connections that this client has opened itself. */
  async end(): Promise<void> {
    this.watch.close();
    this.sessionFeeds.close();
    if (this.options.bus === undefined) await this.bus.close();
    if (typeof this.options.database === 'string') await Promise.all([this.db.end(), this.readDb.end()]);
  }

  /** The id of a session to follow. An id is not looked up, because every reading checks existence and owner. */
  private idToFollow(user: string, session: string): string | Promise<string> {
    return isSessionId(session) && !session.includes('\0') ? session : this.reads.sessionId(user, session);
  }

  /** The caller's own pool, or a new one. */
  private poolOf(max: number): pg.Pool {
    const { database } = this.options;
    if (typeof database !== 'string') return database;
    const pool = createPool(database, { max });
    // The pool replaces broken idle connections; an unhandled error event would end the process.
    pool.on('error', (error) => this.log.warn({ err: error }, 'Postgres'));
    return pool;
  }

  private ownBus(): Bus {
    const { database, directDatabaseUrl } = this.options;
    const connectionString = directDatabaseUrl ?? database;
    if (typeof connectionString !== 'string')
      throw new TypeError('a client over a pool needs a bus or directDatabaseUrl');
    return createPostgresBus({ connectionString, onError: (error) => this.log.warn({ err: error }, 'bus') });
  }
}

/** @throws {TypeError} for options that are out of range or would have no effect */
function refuseInvalid(options: ClientOptions): void {
  const { database, commandConnections, readConnections, maxMessageBytes, maxQueue, bus, directDatabaseUrl } = options;
  for (const [name, value = 1] of Object.entries({ commandConnections, readConnections, maxMessageBytes, maxQueue })) {
    if (!Number.isSafeInteger(value) || value < 1)
      throw new TypeError(`${name}: expected a whole number of at least 1`);
  }
  if (typeof database !== 'string' && (commandConnections ?? readConnections) !== undefined) {
    throw new TypeError('commandConnections, readConnections: expected none with a pool of your own');
  }
  if (bus !== undefined && directDatabaseUrl !== undefined) {
    throw new TypeError('directDatabaseUrl: expected none with a bus of your own');
  }
}

/**
 * Creates a client of a Perdure installation. It connects at first use.
 * @throws {TypeError} naming an option that is missing, out of range, or without effect
 */
export function createClient(options: ClientOptions): PerdureClient {
  return new PerdureClient(options);
}
