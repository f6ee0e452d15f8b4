import type { UIMessageChunk } from 'ai';
import type pg from 'pg';
import type { z } from 'zod';
import { type Bus, userMark } from '../bus/bus.ts';
import { refuseForeignTaskQueue } from '../config/claim-task-queue.ts';
import { showUserWith } from '../config/show-user.ts';
import { isAlias } from '../domain/alias.ts';
import { newId } from '../domain/ids.ts';
import type { ListedRule } from '../domain/permissions.ts';
import type { RendezvousEvent } from '../domain/rendezvous.ts';
import { DEFAULT_TASK_QUEUE } from '../domain/task-queue.ts';
import { cleanText } from '../domain/text.ts';
import { Contents } from '../store/contents.ts';
import { installationId } from '../store/installation-id.ts';
import { openSession, renameSession, type SessionView } from '../store/sessions.ts';
import { parseInput } from '../wire/input.ts';
import { importQuery, openBody, renameBody } from '../wire/requests.ts';
import {
  agentOf,
  modelOf,
  type OfferedAgent,
  offeredAgents,
  type OfferedModels,
  offeredModels,
  requestedWorkspace,
} from './catalog.ts';
import { ConsoleReads } from './console-reads.ts';
import { type Health, healthOf } from './health.ts';
import { type InitiativeEvent, InitiativeReader } from './initiatives/initiative-reader.ts';
import { InitiativeWaker } from './initiatives/initiative-waker.ts';
import { Initiatives } from './initiatives/initiatives.ts';
import { AnswerReader } from './live/answer-reader.ts';
import { FollowerReads } from './live/follower-reads.ts';
import { readOnChange } from './live/read-on-change.ts';
import { SessionWatch } from './live/session-watch.ts';
import { type TurnEvent, TurnEventReader } from './live/turn-event-reader.ts';
import type { ClientLog } from './log.ts';
import { busOf, type ClientOptions, poolsOf, refuseInvalid } from './options.ts';
import { ownMetadata } from './own-metadata.ts';
import { Reads } from './reads.ts';
import { sessionNotFound } from './refusal-errors.ts';
import { Rendezvous } from './rendezvous/rendezvous.ts';
import {
  CallAnswers,
  type CallResponse,
  type OpenCall,
  type OutputTaken,
  type RefusedResponse,
  type Responded,
} from './send/call-answers.ts';
import { type Commands, createCommands } from './send/commands.ts';
import { Erasure } from './send/erasure.ts';
import type { MessageInput } from './send/new-message.ts';
import { listPermissions, revokePermission } from './send/permissions.ts';
import {
  isSessionId,
  type RegenerateOptions,
  Submission,
  type SubmitOptions,
  type Submitted,
} from './send/submission.ts';
import { changeState, readState, type SessionState, type StateInput } from './state/session-state.ts';
import { Exports } from './transfer/exports.ts';
import type { ImportChoice } from './transfer/import-check.ts';
import { type Imported, Imports } from './transfer/imports.ts';
import { type Attachment, type AttachmentContent, type AttachmentInput, Attachments } from './uploads/attachments.ts';
import { putInTurn } from './uploads/put-in-turn.ts';
import { Limiter } from './wait/limiter.ts';

const MAX_MESSAGE_BYTES = 256 * 1024;
const MAX_FILE_BYTES = 20 * 1024 ** 2;
const MAX_QUEUE = 100;
/** Read connections that streams leave free for requests and the change poll. */
const NOT_FOR_STREAMS = 2;

/** Input of `openSession`: the body of POST /api/sessions. */
export type OpenInput = z.input<typeof openBody>;

/** The signal ends the reading; the run continues. */
interface ReadOptions {
  signal?: AbortSignal;
}

/** Options of reading an answer. */
interface FollowOptions extends ReadOptions {
  /** The reader has the answer up to this tool call, and gets its outcome and what comes after. */
  after?: string | undefined;
  /** Tool calls that the reader's copy shows with an outcome. */
  given?: readonly string[] | undefined;
}

/**
 * The API of sessions, for backend services and the HTTP host. Sessions are addressed by id or by an alias of their
 * user.
 */
export class PerdureClient {
  readonly commands: Commands;
  readonly reads: Reads;
  /** What the console reads. */
  readonly console: ConsoleReads;
  readonly initiatives: Initiatives;
  private readonly db: pg.Pool;
  private readonly readDb: pg.Pool;
  private readonly streams: Limiter;
  private readonly followerReads: FollowerReads;
  private readonly watch: SessionWatch;
  private readonly sessionFeeds: Rendezvous;
  private readonly submission: Submission;
  private readonly waker: InitiativeWaker;
  private readonly answers: CallAnswers;
  private readonly erasure: Erasure;
  private readonly attachments: Attachments;
  private readonly exports: Exports;
  private readonly imports: Imports;
  private readonly options: ClientOptions;
  private readonly bus: Bus;
  private readonly log: ClientLog;

  constructor(options: ClientOptions) {
    const {
      temporal,
      taskQueue = DEFAULT_TASK_QUEUE,
      catalog,
      maxMessageBytes = MAX_MESSAGE_BYTES,
      maxFileBytes = MAX_FILE_BYTES,
      maxImportBytes,
      maxQueue = MAX_QUEUE,
    } = options;
    refuseInvalid(options);
    this.options = options;
    this.log = options.log ?? { warn: () => {} };
    ({ db: this.db, readDb: this.readDb } = poolsOf(options, this.log));
    this.bus = busOf(options, this.log);
    const { db, readDb, bus, log } = this;
    this.streams = new Limiter(Math.max(1, readDb.options.max - NOT_FOR_STREAMS));
    this.followerReads = new FollowerReads(readDb, this.streams);
    this.watch = new SessionWatch(bus, { db: readDb, log });
    this.sessionFeeds = new Rendezvous({ db: readDb, bus, log, limit: this.streams.run });
    const workflows = { temporal, taskQueue, showUser: showUserWith(options.hideUsersKey) };
    this.reads = new Reads(readDb, catalog);
    this.console = new ConsoleReads(readDb, this.reads, (reader, what) =>
      this.log.warn({ reader, ...what }, "a user reads other users' sessions"),
    );
    this.waker = new InitiativeWaker(workflows, log);
    this.initiatives = new Initiatives({ db, readDb, bus, waker: this.waker, workspaces: catalog?.workspaces });
    this.commands = createCommands({ db, workflows, reads: this.reads, catalog });
    this.erasure = new Erasure({ db, temporal, bus });
    const contents = new Contents(db, options.s3);
    const files = { put: putInTurn(contents), maxBytes: maxFileBytes };
    this.attachments = new Attachments({ db, contents, ...files });
    this.exports = new Exports({ db: readDb, contents, log, limit: this.streams.run });
    this.imports = new Imports({ db, catalog, maxBytes: maxImportBytes, files });
    const { attachments } = this;
    this.submission = new Submission({ db, workflows, bus, log, catalog, attachments, maxMessageBytes, maxQueue });
    this.answers = new CallAnswers({ db, bus, commands: this.commands, submission: this.submission });
  }

  /**
   * Opens a session for a user.
   * @throws {PerdureError} `AgentNotConfigured`, `ModelNotConfigured`, `ProjectNotFound`, `InitiativeNotFound`, `BadRequest`, `TooLarge`
   */
  async openSession(user: string, given: OpenInput = {}): Promise<SessionView> {
    const input = parseInput(openBody, given);
    const { catalog } = this.options;
    const metadata = ownMetadata(input.metadata);
    const folder = await this.initiatives.folderToJoin(user, metadata, input.project_id ?? null);
    const sessionId = newId('ses');
    const session = {
      sessionId,
      userId: user,
      agent: agentOf(catalog, input.agent),
      workspaceRoot: requestedWorkspace(catalog?.workspaces, user, input.workspace_root) ?? folder,
      model: modelOf(catalog, input.model),
      metadata,
      headless: input.headless ?? false,
    };
    await openSession(this.db, session, input.project_id ?? null);
    this.bus.publish({ session: sessionId, kind: 'status' });
    return this.reads.session(user, sessionId);
  }

  /**
   * Gives a session a title, `metadata.title`; null: the first line of its first message is its title again.
   * @throws {PerdureError} `SessionNotFound`, `BadRequest`
   */
  async rename(user: string, session: string, given: z.input<typeof renameBody>): Promise<SessionView> {
    const { title } = parseInput(renameBody, given);
    const sessionId = await this.reads.sessionId(user, session);
    const cleaned = title === null ? null : cleanText(title);
    if (!(await renameSession(this.db, user, sessionId, cleaned))) throw sessionNotFound();
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
   * @throws {LeftTheLineError} `signal` fired while it waited
   */
  runInFlight(
    user: string,
    id: string,
    { signal }: ReadOptions = {},
  ): Promise<{ session: string; run: number } | undefined> {
    const read = async () => {
      const session = await this.findSession(user, id);
      const run = session === undefined ? undefined : await this.reads.currentRun(session);
      return session === undefined || run === undefined ? undefined : { session, run };
    };
    return this.streams.run(read, signal);
  }

  /**
   * The id of a user's session to follow, given its id or alias; queued like `runInFlight`.
   * @throws {PerdureError} `SessionNotFound`
   * @throws {LeftTheLineError} `signal` fired while it waited
   */
  sessionToFollow(user: string, id: string, { signal }: ReadOptions = {}): Promise<string> {
    return this.streams.run(() => this.reads.sessionId(user, id), signal);
  }

  /**
   * Accepts a message. Once this returns, the message is stored and will be answered despite crashes.
   * @throws {PerdureError} `SessionNotFound`, `ChildSession`, `MessageConflict`, `TooMany`, `TooLarge`, `BadRequest`,
   * `AgentNotConfigured`, `ModelNotConfigured`
   */
  submit(user: string, session: string, message: MessageInput, options?: SubmitOptions): Promise<Submitted> {
    return this.submission.submit(user, session, message, options);
  }

  /**
   * Stores a file for messages of a session: a file part of a message refers to it by its `url`. The same bytes again are the
   * same attachment. Nothing is stored of a file that ends early.
   * @throws {PerdureError} `SessionNotFound`, `TooLarge`, `BadRequest` for a type that is not accepted, `AgentNotConfigured`
   * @throws {LeftTheLineError} `signal` fired while it waited for other uploads
   */
  async attach(
    user: string,
    session: string,
    file: AttachmentInput,
    { open = false, agent, signal }: Pick<SubmitOptions, 'open' | 'agent'> & ReadOptions = {},
  ): Promise<Attachment> {
    // Before the file is received: another user's session must not be known from how it is refused.
    const known = await this.findSession(user, session);
    if (known === undefined && !open) throw sessionNotFound();
    const opened = () => this.submission.resolveOrOpen(user, session, agent ?? undefined);
    return this.attachments.add(user, known ?? opened, file, signal);
  }

  /**
   * A file of a session.
   * @throws {PerdureError} `SessionNotFound`, `AttachmentNotFound`, also if its bytes are lost; `Unavailable` if the bucket cannot be
   * read now
   */
  async attachment(user: string, session: string, attachmentId: string): Promise<AttachmentContent> {
    return this.attachments.read(await this.reads.sessionId(user, session), attachmentId);
  }

  /**
   * Replaces a user message by another one: ends the run in flight, drops what is queued, and hides the message with all that
   * came after it. A message that is still queued is only exchanged: it goes to the end of the queue. The id of a message that
   * was replaced stands for the newest one in its place; the same edit again returns its run.
   * @throws {PerdureError} `SessionNotFound`, `MessageNotFound`, `NotUserMessage`, `MessageHidden`, and those of `submit`
   */
  edit(
    user: string,
    session: string,
    messageId: string,
    message: MessageInput,
    options?: Omit<SubmitOptions, 'open'>,
  ): Promise<Submitted> {
    return this.submission.edit(user, session, messageId, message, options);
  }

  /**
   * Answers a user message again, as a new run of it: ends the run in flight, drops what is queued, and hides all that came
   * after the message.
   * @throws {PerdureError} `SessionNotFound`, `MessageNotFound`, `NotUserMessage`, `MessageHidden`, `ModelNotConfigured`,
   * `TooManyAnswers`
   */
  regenerate(user: string, session: string, messageId: string, options?: RegenerateOptions): Promise<Submitted> {
    return this.submission.regenerate(user, session, messageId, options);
  }

  /**
   * A run's answer as UI message chunks, from the first chunk to the end, live. Chunks may share objects with those of other
   * readers, so they must not be changed.
   */
  async *follow(
    user: string,
    session: string,
    runSeq: number,
    options?: FollowOptions,
  ): AsyncGenerator<UIMessageChunk> {
    for await (const chunks of this.followInBatches(user, session, runSeq, options)) yield* chunks;
  }

  /** As `follow`, in batches of one reading each. */
  async *followInBatches(
    user: string,
    session: string,
    runSeq: number,
    { signal, after, given }: FollowOptions = {},
  ): AsyncGenerator<UIMessageChunk[]> {
    const sessionId = await this.idToFollow(user, session);
    const answer = new AnswerReader(this.followerReads, { userId: user, sessionId, runSeq }, after, given);
    yield* readOnChange(this.watch, {
      sessionId,
      signal,
      // The status changes just before the first text; reading it at once would delay that text.
      urgency: ({ kind, run }) => (kind === 'status' ? 'soon' : kind === 'stream' && run === runSeq ? 'now' : 'never'),
      read: (options) => answer.read(options),
      onFailure: (error) => this.log.warn({ err: error, session: sessionId }, 'an answer could not be read'),
    });
  }

  /**
   * A session's status, then every change of status, session and state, and the turns that begin and end. Ends with the signal.
   */
  async *events(user: string, session: string, { signal }: ReadOptions = {}): AsyncGenerator<TurnEvent> {
    const sessionId = await this.idToFollow(user, session);
    const turns = new TurnEventReader(this.followerReads, user, sessionId);
    const readings = readOnChange(this.watch, {
      sessionId,
      user,
      signal,
      // Soon for `user:` state: all of a user's readers would read it at once, and again for each of many changes.
      urgency: (pointer) => (pointer.user !== undefined ? 'soon' : pointer.kind === 'stream' ? 'never' : 'now'),
      read: (options) => turns.read(options),
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
   * An initiative's state, then every change of it, and the state after it. Ends with the signal.
   * @throws {PerdureError} `InitiativeNotFound`
   */
  async *initiativeEvents(
    user: string,
    initiativeId: string,
    { signal }: ReadOptions = {},
  ): AsyncGenerator<InitiativeEvent> {
    const reading = new InitiativeReader(this.readDb, { userId: user, initiativeId });
    const readings = readOnChange(this.watch, {
      sessionId: initiativeId,
      signal,
      urgency: () => 'now',
      read: () => this.streams.run(() => reading.read(), signal),
      onFailure: (error) => this.log.warn({ err: error, initiative: initiativeId }, 'an initiative could not be read'),
    });
    for await (const events of readings) yield* events;
  }

  /**
   * Takes what a page has added to the tool calls of an answer: responses to approvals (once, or reject), and the outcomes of calls
   * that it carries out itself. What is known already is not taken again. A call of the last step that the page shows as open is named,
   * too (`is_open`): its outcome is then told again.
   * @param answerId the id of the answer
   * @returns the run, and `after` and `given` for `follow`: what of its stream is new to the page
   * @throws {PerdureError} `SessionNotFound`, `MessageNotFound`, `NotWaiting` with how the wait has ended, `BadRequest`: there is no
   * response to a call that waits or has waited; `Unavailable`
   */
  respond(
    user: string,
    session: string,
    answerId: string,
    responses: readonly (CallResponse | RefusedResponse | OpenCall)[],
  ): Promise<Responded> {
    return this.answers.respond({ user, session }, answerId, responses);
  }

  /**
   * Gives the outcome of a tool call that a page carries out, because its tool has no `execute`: a call of the session, or of a
   * subagent below it. A repeat changes nothing.
   * @throws {PerdureError} `SessionNotFound`, `NotWaiting` with how the wait has ended
   */
  giveOutput(
    user: string,
    session: string,
    toolCallId: string,
    given: { output: unknown } | { error: string },
  ): Promise<OutputTaken> {
    return this.answers.giveOutput({ user, session }, toolCallId, given);
  }

  /**
   * The permission rules in force: those of the agent if there is a catalog, then those of the project and the session, each in the
   * order in which they were made; of a subagent then those of each session above.
   * @throws {PerdureError} `SessionNotFound`
   */
  permissions(user: string, session: string): Promise<{ items: ListedRule[] }> {
    return listPermissions(this.readDb, this.options.catalog, user, session);
  }

  /**
   * Takes back a rule of the session or its project.
   * @throws {PerdureError} `SessionNotFound`, `RuleNotFound`, `ManifestRule`
   */
  async revokePermission(user: string, session: string, ruleId: string): Promise<void> {
    const place = { user, session, ruleId };
    const sessionId = await revokePermission(this.db, this.options.catalog, place);
    this.bus.publish({ session: sessionId, kind: 'status', user: userMark(user) });
  }

  /**
   * The state that a session sees: its own, the user's as `user:` and the app's as `app:`.
   * @throws {PerdureError} `SessionNotFound`
   */
  async state(user: string, session: string): Promise<SessionState> {
    return readState(this.readDb, user, await this.reads.sessionId(user, session));
  }

  /**
   * Changes a session's state by an event, and returns the state after it; `app:` keys only as `admin`. A repeat with the same
   * key changes nothing.
   * @throws {PerdureError} `SessionNotFound`, `Forbidden`, `StaleSession`, `KeyReused`, `BadRequest`, `TooLarge`
   */
  async changeState(
    user: string,
    session: string,
    input: StateInput,
    options: { idempotencyKey?: string | undefined; admin?: boolean | undefined } = {},
  ): Promise<SessionState> {
    const sessionId = await this.reads.sessionId(user, session);
    return changeState({ db: this.db, bus: this.bus }, { user, sessionId }, input, options);
  }

  /**
   * The export of a session as JSON lines, as it is at one moment, when its turn has come. Memory does not grow
   * with the session.
   * @throws {PerdureError} `SessionNotFound`, `TooMany`, `Unavailable` if the disk is full, or the bytes of an attachment cannot be read
   * now: of the first one before the first piece
   * @throws {LeftTheLineError} `signal` fired while it waited for others
   */
  async *exportSession(user: string, session: string, { signal }: ReadOptions = {}): AsyncGenerator<Uint8Array, void> {
    yield* this.exports.export(user, await this.reads.sessionId(user, session), signal);
  }

  /**
   * Imports the JSON lines of an export as a new session of the user, at chatting and without a project, with another agent or model
   * if they are chosen. Nothing is stored if a line is refused.
   * @throws {PerdureError} naming the line: `InvalidLine`, `WrongOrder`, `ForeignId`, `DuplicateId`, `TooLarge`,
   * `AgentNotConfigured`, `ModelNotConfigured`; `TooLarge` of the whole, `Unavailable` if the disk is full
   * @throws {LeftTheLineError} `signal` fired while it waited for other imports
   */
  async importSession(
    user: string,
    lines: AsyncIterable<Uint8Array>,
    { signal, ...choice }: ReadOptions & ImportChoice = {},
  ): Promise<Imported> {
    const imported = await this.imports.import(user, lines, { ...parseInput(importQuery, choice), signal });
    this.bus.publish({ session: imported.session_id, kind: 'status' });
    return imported;
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

  /** The agents that users can open sessions with, and what they are for; none without a catalog. */
  agents(): OfferedAgent[] {
    return offeredAgents(this.options.catalog);
  }

  /** The agent of sessions that name none; undefined without a catalog. */
  get defaultAgent(): string | undefined {
    return this.options.catalog?.defaultAgent;
  }

  /** The models to choose from; none without a catalog. */
  models(): OfferedModels {
    return offeredModels(this.options.catalog);
  }

  /**
   * Whether Postgres and Temporal respond within a second each, how the workers' agents differ from the catalog's, and which MCP
   * servers a worker cannot reach.
   */
  health(): Promise<Health> {
    const { temporal, catalog } = this.options;
    return healthOf({ db: this.db, temporal, catalog });
  }

  /**
   * Checks that no other installation uses this client's task queue.
   * @throws {ConfigError} naming both installations; or what Postgres or Temporal throws while it cannot be reached
   */
  async requireOwnTaskQueue(): Promise<void> {
    const { temporal, taskQueue = DEFAULT_TASK_QUEUE } = this.options;
    const { namespace } = temporal.options;
    await refuseForeignTaskQueue(temporal, { namespace, taskQueue, installation: await installationId(this.db) });
  }

  /** Ends all streams and closes the connections that this client has opened itself. */
  async end(): Promise<void> {
    await Promise.all([this.submission.close(), this.waker.close()]);
    this.watch.close();
    this.sessionFeeds.close();
    if (this.options.bus === undefined) await this.bus.close();
    if (typeof this.options.database === 'string') await Promise.all([this.db.end(), this.readDb.end()]);
  }

  /** The id of a session to follow. An id is not looked up, because every reading checks existence and owner. */
  private idToFollow(user: string, session: string): string | Promise<string> {
    return isSessionId(session) && !session.includes('\0') ? session : this.reads.sessionId(user, session);
  }
}

/**
 * Creates a client of a Perdure installation. It connects at first use.
 * @throws {TypeError} naming an option that is missing, out of range, or without effect
 */
export function createClient(options: ClientOptions): PerdureClient {
  return new PerdureClient(options);
}
