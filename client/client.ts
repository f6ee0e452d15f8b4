import type { Client } from '@temporalio/client';
import type { UIMessageChunk } from 'ai';
import type pg from 'pg';
import type { Bus } from '../bus/bus.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { RendezvousEvent } from '../domain/rendezvous.ts';
import { byteLength, cleanJson } from '../domain/text.ts';
import { parseInput } from '../wire/input.ts';
import { isAlias, openBody } from '../wire/requests.ts';
import { createPool } from '../store/db.ts';
import { openSession } from '../store/sessions.ts';
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
import type { SessionView } from './session-view.ts';
import { isSessionId, Submission, type Submitted } from './submission.ts';
import { type TurnEvent, TurnReading } from './turns.ts';
import { SessionWatch } from './watch.ts';

const MAX_MESSAGE_BYTES = 256 * 1024;
const HEALTH_MS = 1_000;
const MAX_METADATA_BYTES = 16 * 1024;
const MAX_QUEUE = 100;
const COMMAND_CONNECTIONS = 10;
const READ_CONNECTIONS = 10;
/** Of the connections for reading, those that streams leave to requests and to the poll for changes. */
const NOT_FOR_STREAMS = 2;

export interface ClientOptions {
  /**
   * Postgres, for which two pools are made, so that readers never delay a command; or a pool of the caller's own, which
   * commands and readers share and which stays the caller's to end.
   */
  database: string | pg.Pool;
  /** Most connections for messages and other commands; default 10. */
  commandConnections?: number;
  /** Most connections for everything that only reads; default 10. */
  readConnections?: number;
  /** Where the caller has a bus, it stays the caller's to close. Else one is made on `directDatabaseUrl`. */
  bus?: Bus;
  /** Postgres past any pooler, for LISTEN; needed with a pool and no bus. */
  directDatabaseUrl?: string;
  /** As `temporalClient` makes it. */
  temporal: Client;
  /** Against which agents and models are checked when they are asked for; without it nothing is. */
  catalog?: Catalog;
  maxMessageBytes?: number;
  /** Most messages that may be queued or at work in a session. */
  maxQueue?: number;
  log?: ClientLog;
}

/** What a session is opened with. */
export interface OpenInput {
  agent?: string | undefined;
  project_id?: string | null | undefined;
  /** `provider/model`. */
  model?: string | null | undefined;
  workspace_root?: string | null | undefined;
  metadata?: Record<string, unknown> | undefined;
}

/** Ends a reading that nobody waits for any more; the run goes on. */
interface ReadOptions {
  signal?: AbortSignal;
}

/** Everything a backend service, or the HTTP face, asks of sessions. A session is named by its id or its user's alias. */
export class PerdureClient {
  readonly commands: Commands;
  readonly reads: Reads;
  private readonly db: pg.Pool;
  private readonly readDb: pg.Pool;
  private readonly streams: Limiter;
  private readonly watch: SessionWatch;
  private readonly meeting: Rendezvous;
  private readonly submission: Submission;
  private readonly erasure: Erasure;
  private readonly options: ClientOptions;
  private readonly bus: Bus;
  private readonly log: ClientLog;

  constructor(options: ClientOptions) {
    const { temporal, catalog, maxMessageBytes = MAX_MESSAGE_BYTES, maxQueue = MAX_QUEUE } = options;
    this.options = options;
    this.log = options.log ?? { warn: () => {} };
    this.db = this.poolOf(options.commandConnections ?? COMMAND_CONNECTIONS);
    this.readDb = this.poolOf(options.readConnections ?? READ_CONNECTIONS);
    this.bus = options.bus ?? this.ownBus();
    const { db, readDb, bus, log } = this;
    this.streams = new Limiter(Math.max(1, readDb.options.max - NOT_FOR_STREAMS));
    this.watch = new SessionWatch(bus, { db: readDb, log });
    this.meeting = new Rendezvous({ db: readDb, bus, log, limit: this.streams.run });
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
      throw new PerdureError('TooLarge', `metadata: expected at most ${MAX_METADATA_BYTES} bytes`);
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
   * The own id of a user's session; undefined: it is named by an alias that nobody has used yet.
   * @throws {PerdureError} `SessionNotFound` for the id of a session that is not there, or not the user's, and for what
   * can be no alias
   */
  async findSession(user: string, id: string): Promise<string | undefined> {
    if (isSessionId(id)) return this.reads.sessionId(user, id);
    if (!isAlias(id)) throw sessionNotFound();
    return this.submission.resolve(user, id);
  }

  /**
   * Accepts a message. Once this answers the message is kept, and will be answered whatever goes down. With `open` an
   * alias that no session has yet gets one, of the default agent.
   * @throws {PerdureError} `SessionNotFound`, `MessageConflict`, `TooMany`, `TooLarge`, `BadRequest`,
   * `ModelNotConfigured`
   */
  submit(user: string, session: string, message: MessageInput, options?: { open?: boolean }): Promise<Submitted> {
    return this.submission.submit(user, session, message, options);
  }

  /** A run's answer as UI message chunks: from the first one, then live to the end. */
  async *follow(user: string, session: string, runSeq: number, options?: ReadOptions): AsyncGenerator<UIMessageChunk> {
    for await (const chunks of this.followInBatches(user, session, runSeq, options)) yield* chunks;
  }

  /** As `follow`, with what was found in one reading together. */
  async *followInBatches(
    user: string,
    session: string,
    runSeq: number,
    { signal }: ReadOptions = {},
  ): AsyncGenerator<UIMessageChunk[]> {
    const sessionId = await this.toFollow(user, session);
    const answer = new AnswerReading(this.readDb, { userId: user, sessionId, runSeq });
    yield* keepReading(this.watch, {
      sessionId,
      signal,
      // A status changes on the way to the first words, and its reading must not stand in their way.
      urgency: ({ kind, run }) => (kind === 'status' ? 'soon' : kind === 'stream' && run === runSeq ? 'now' : 'never'),
      read: () => this.streams.run(() => answer.read()),
      onFailure: (error) => this.log.warn({ err: error, session: sessionId }, 'an answer could not be read'),
    });
  }

  /** A session's status as it is, then every change of it and the turns that begin and end. Ends with the signal. */
  async *events(user: string, session: string, { signal }: ReadOptions = {}): AsyncGenerator<TurnEvent> {
    const sessionId = await this.toFollow(user, session);
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
   * A user's sessions: those that are open (not closed, not archived, no side chats; the newest 200) each as
   * session_open, then `ready`, then every change. Ends with the signal.
   */
  async *rendezvous(user: string, options?: ReadOptions): AsyncGenerator<RendezvousEvent> {
    for await (const events of this.rendezvousInBatches(user, options)) yield* events;
  }

  /** As `rendezvous`, with what was found in one reading together. */
  rendezvousInBatches(user: string, options: ReadOptions = {}): AsyncGenerator<RendezvousEvent[]> {
    return this.meeting.follow(user, options);
  }

  /**
   * Removes every row of a session and its side chats, ends their runs, and has the workers remove their files.
   * @throws {PerdureError} `SessionNotFound`, also when it is repeated
   */
  eraseSession(user: string, session: string): Promise<void> {
    return this.erasure.session(user, session);
  }

  /** Removes everything of a user: sessions, projects, `user:` state and files. Repeatable. */
  eraseUser(user: string): Promise<void> {
    return this.erasure.user(user);
  }

  /** Whether what everything rests on answers, each within a second. */
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

  /** Closes what this client has opened itself. */
  async end(): Promise<void> {
    this.watch.close();
    this.meeting.close();
    if (this.options.bus === undefined) await this.bus.close();
    if (typeof this.options.database === 'string') await Promise.all([this.db.end(), this.readDb.end()]);
  }

  /** The id of a session to follow. Every reading checks that it exists and who owns it. */
  private toFollow(user: string, session: string): string | Promise<string> {
    return isSessionId(session) && !session.includes('\0') ? session : this.reads.sessionId(user, session);
  }

  /** The caller's own pool, or a new one. */
  private poolOf(max: number): pg.Pool {
    const { database } = this.options;
    if (typeof database !== 'string') return database;
    const pool = createPool(database, { max });
    // The pool replaces idle connections that break; unhandled, their errors would end the process.
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

/** A client of a Perdure installation: its Postgres and its Temporal. It connects when it is first used. */
export function createClient(options: ClientOptions): PerdureClient {
  return new PerdureClient(options);
}
