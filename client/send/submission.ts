import { setTimeout as delay } from 'node:timers/promises';
import pTimeout from 'p-timeout';
import { type Bus, publishEnded } from '../../bus/bus.ts';
import type { QueuedRun } from '../../domain/activities.ts';
import type { Attributes } from '../../domain/attributes.ts';
import { ID_PATTERN } from '../../domain/command-table.ts';
import { newId } from '../../domain/ids.ts';
import type { RunState } from '../../domain/runs.ts';
import type { Db } from '../../store/db.ts';
import {
  type Acceptance,
  type AcceptanceRefusal,
  acceptMessage,
  editMessage,
  type NewMessage,
  regenerateAnswer,
} from '../../store/messages.ts';
import { findSession, isOpen, openAlias } from '../../store/sessions.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { modelChoice } from '../../wire/requests.ts';
import { submitUpdate } from '../../workflows/definitions.ts';
import { agentOf, type Catalog } from '../catalog.ts';
import type { ClientLog } from '../log.ts';
import { messageNotFound, refusalError, sessionNotFound } from '../refusal-errors.ts';
import type { Attachments } from '../uploads/attachments.ts';
import { LeftTheLineError, Limiter } from '../wait/limiter.ts';
import { chosenModel, requireModel, requireReadable } from './chosen-model.ts';
import { storedAttributes, type MessageInput, newMessage } from './new-message.ts';
import { sendUpdate, type SessionWorkflows, type Target } from './send-update.ts';
import { TurnProgress } from './turn-progress.ts';

/** A wake-up without a response by then is left to the workers' sweeper, which finds runs that stay queued. */
const WAKE_DEADLINE_MS = 3_000;
/** How long closing waits for wake-ups. */
const CLOSE_MS = 700;
/** The workflow hears of a turn that was over before its wake-up within this time, together with those that follow. */
const TELL_LATER_MS = 1_000;
/** Maximum of wake-ups in flight, so that Temporal's work leaves time for the answers. The others wait. */
const WAKES = 16;
const KNOWN_ALIASES = 10_000;
const MAX_WOKEN = 20_000;

/** A message that was accepted, now or earlier. */
export interface Submitted {
  session_id: string;
  message_id: string;
  run_seq: number;
  /** Number of messages ahead of it. */
  position: number;
  /** The same message had been accepted earlier. It does not run again. */
  repeated: boolean;
  /** The state of its run. */
  state: RunState;
  /** The error code of a failed run. */
  code: string | null;
}

/** Options of `submit`. */
export interface SubmitOptions {
  /** Open a session for an alias that has none, after the message has been validated. */
  open?: boolean;
  /** The agent of a session that is opened; unset: the default. Another agent than that of an existing session is refused. */
  agent?: string | null | undefined;
  /** For prompts and tools of this turn, such as the tenant of the caller. Stored; at most 4 KiB of JSON, and no token. */
  attributes?: Attributes | undefined;
}

/** Options of answering a message again. */
export interface RegenerateOptions {
  /** The id of the answer to replace. If a newer answer has replaced it, this is a repeat and returns the newer one's run. */
  replaces?: string | null | undefined;
  /** As in `MessageInput`; default: the one used last. */
  model?: MessageInput['model'];
  /** Another agent than the session's is refused. */
  agent?: string | null | undefined;
  /** As in `SubmitOptions`; unset: those of the message's last run. */
  attributes?: Attributes | undefined;
}

/** A session as a caller names it, and the agent that it is to have. */
interface Asked {
  userId: string;
  id: string;
  agent: string | undefined;
}

/** A session of a user. */
interface Session {
  sessionId: string;
  userId: string;
}

interface Deps {
  db: Db;
  workflows: SessionWorkflows;
  bus: Bus;
  log: ClientLog;
  catalog: Catalog | undefined;
  attachments: Pick<Attachments, 'require'>;
  maxMessageBytes: number;
  maxQueue: number;
}

/** A wake-up that may be superseded by a later one, which then is to be sent by the same time. */
interface DelayedWake {
  superseded: AbortController;
  tellBy: number;
  /** A run that was ended in its row, of which the workflow is to be told. */
  abortedRun: number | null | undefined;
}

/** Accepts messages. The caller waits only for the row; the workflow is woken in the background. */
export class Submission {
  private readonly deps: Deps;
  /** Cache of aliases' sessions. An alias moves to another session only if its session is erased. */
  private readonly aliases = new Map<string, string>();
  private readonly turns: TurnProgress;
  /** Cache of the agents of users' sessions, which do not change. */
  private readonly agents = new Map<string, string>();
  /** Delayed wake-ups by session: of each the newest one whose message was accepted with no other ahead of it. */
  private readonly delayed = new Map<string, DelayedWake>();
  /** Sessions whose workflow this process has woken: it exists, as far as this process knows. */
  private readonly woken = new Set<string>();
  private readonly wakes = new Limiter(WAKES);
  private readonly waking = new Set<Promise<void>>();
  private readonly closing = new AbortController();

  constructor(deps: Deps) {
    this.deps = deps;
    this.turns = new TurnProgress(deps.bus);
  }

  /** Sends the delayed wake-ups of open turns at once, and waits for them, for a short time. */
  async close(): Promise<void> {
    this.turns.close();
    this.closing.abort();
    // A call that is in flight when its connection is closed makes the SDK throw in a timer.
    await pTimeout(Promise.allSettled(this.waking), { milliseconds: CLOSE_MS, message: false });
  }

  /**
   * @throws {PerdureError} `SessionNotFound`, `MessageConflict`, `TooMany`, `TooLarge`, `BadRequest`,
   * `AgentNotConfigured`, `ModelNotConfigured`, `ModalityNotSupported`
   */
  async submit(userId: string, id: string, input: MessageInput, options: SubmitOptions = {}): Promise<Submitted> {
    const { db, bus, maxQueue } = this.deps;
    const agent = options.agent ?? undefined;
    const message = await this.valid({ userId, id, agent }, input, options.attributes);
    const resolve = () => (options.open === true ? this.resolveOrOpen(userId, id, agent) : this.resolve(userId, id));
    const notify = bus.takeBatch?.() ?? false;
    const store = async (session: Session) => {
      await this.requireAttachments(session, message);
      return acceptMessage(db, session, message, { maxQueue, notify });
    };
    return this.accepted({ userId, id, agent, notify }, resolve, store);
  }

  /** @throws {PerdureError} see `PerdureClient.edit` */
  async edit(
    userId: string,
    id: string,
    edited: string,
    input: MessageInput,
    options: Omit<SubmitOptions, 'open'> = {},
  ): Promise<Submitted> {
    const { db, maxQueue } = this.deps;
    const agent = options.agent ?? undefined;
    const message = await this.valid({ userId, id, agent }, input, options.attributes);
    refuseOddId(edited);
    const resolve = () => this.resolve(userId, id);
    const store = async (session: Session) => {
      await this.requireAttachments(session, message);
      return editMessage(db, session, edited, { message, maxQueue });
    };
    return this.accepted({ userId, id, agent }, resolve, store);
  }

  /** @throws {PerdureError} see `PerdureClient.regenerate` */
  async regenerate(
    userId: string,
    id: string,
    messageId: string,
    { replaces = null, model, agent, attributes }: RegenerateOptions = {},
  ): Promise<Submitted> {
    const { db, catalog } = this.deps;
    const choice = parseInput(modelChoice.nullish(), model, ['model']);
    const chosen = choice ? chosenModel(choice) : null;
    requireModel(catalog, chosen, 'model');
    refuseOddId(messageId);
    const given = storedAttributes(attributes);
    const run = { messageId, replaces, answerId: newId('msg'), model: chosen, attributes: given };
    const resolve = () => this.resolve(userId, id);
    const store = (session: Session) => regenerateAnswer(db, session, run);
    return this.accepted({ userId, id, agent: agent ?? undefined }, resolve, store);
  }

  private async valid(
    { userId, id, agent }: Asked,
    input: MessageInput,
    attributes: Attributes | undefined,
  ): Promise<NewMessage> {
    const { catalog, maxMessageBytes } = this.deps;
    const message = newMessage(input, maxMessageBytes, attributes);
    requireModel(catalog, message.model, input.model ? 'model' : 'metadata.model');
    await this.requireReadable({ userId, id, agent }, message);
    return message;
  }

  private requireReadable({ userId, id, agent }: Asked, message: NewMessage): Promise<void> {
    const { catalog, db } = this.deps;
    return requireReadable(catalog, message, async () => {
      const session = await findSession(db, userId, id);
      return session?.model ?? catalog?.models.ofAgent(session?.agent ?? agentOf(catalog, agent));
    });
  }

  private async requireAttachments({ userId, sessionId }: Session, message: NewMessage): Promise<void> {
    const parts = message.parts.map(({ data }) => data);
    const isOther = await this.deps.attachments.require(userId, sessionId, parts);
    // `valid` has judged what the message said.
    if (isOther) await this.requireReadable({ userId, id: sessionId, agent: undefined }, message);
  }

  /** Stores what a user says in a session, and wakes its workflow. */
  private async accepted(
    { userId, id, agent, notify = false }: Asked & { notify?: boolean },
    resolve: () => Promise<string | undefined>,
    store: (session: Session) => Promise<Acceptance | AcceptanceRefusal>,
  ): Promise<Submitted> {
    const { bus } = this.deps;
    const accept = async (sessionId: string | undefined) => {
      if (sessionId === undefined) throw sessionNotFound();
      if (agent !== undefined) await this.requireAgent(userId, sessionId, agent);
      return { sessionId, ...(await store({ sessionId, userId })) };
    };
    let accepted = await accept(await resolve());
    // The session of a cached alias may have been erased since.
    if (!accepted.ok && accepted.code === 'SessionNotFound' && this.aliases.delete(keyOf(userId, id))) {
      accepted = await accept(await resolve());
    }
    if (!accepted.ok) throw refusalError(accepted);
    const { sessionId } = accepted;
    if (accepted.aborted_run) bus.publish({ session: sessionId, run: accepted.aborted_run, kind: 'abort' });
    publishEnded(bus, accepted.children ?? []);
    if (accepted.state === 'queued') {
      if (!notify) {
        bus.publish({ session: sessionId, run: accepted.run_seq, kind: 'accepted' });
        bus.publish({ session: sessionId, kind: 'status' });
      }
      const waking = this.wakeInTime(userId, sessionId, accepted).finally(() => this.waking.delete(waking));
      this.waking.add(waking);
    }
    const { message_id, run_seq, position, state, code = null } = accepted;
    const repeated = !accepted.accepted;
    return { session_id: sessionId, message_id, run_seq, position, repeated, state, code };
  }

  /** The id of a session, given its id or an alias; undefined: no session has this alias. */
  async resolve(userId: string, id: string): Promise<string | undefined> {
    if (isSessionId(id)) return id;
    const known = this.aliases.get(keyOf(userId, id));
    if (known !== undefined) return known;
    const session = await findSession(this.deps.db, userId, id);
    return session && this.remember(userId, id, session.session_id);
  }

  /** The id of an alias's session, which is opened if needed. A session id is returned unchanged. */
  async resolveOrOpen(userId: string, id: string, asked: string | undefined): Promise<string> {
    const known = await this.resolve(userId, id);
    if (known !== undefined) return known;
    const agent = agentOf(this.deps.catalog, asked);
    const sessionId = newId('ses');
    const opened = { sessionId, userId, agent, workspaceRoot: null, model: null, metadata: {} };
    return this.remember(userId, id, await openAlias(this.deps.db, id, opened));
  }

  /** @throws {PerdureError} `BadRequest` for another agent than the session's */
  private async requireAgent(userId: string, sessionId: string, asked: string): Promise<void> {
    const key = keyOf(userId, sessionId);
    const agent = this.agents.get(key) ?? (await findSession(this.deps.db, userId, sessionId))?.agent;
    // Accepting the message says that there is no such session.
    if (agent === undefined) return;
    if (this.agents.size >= KNOWN_ALIASES) this.agents.clear();
    this.agents.set(key, agent);
    if (agent === asked) return;
    throw new InvalidInputError([{ field: 'agent', expected: `"${agent}", the agent of this session, or none` }]);
  }

  private remember(userId: string, alias: string, sessionId: string): string {
    if (this.aliases.size >= KNOWN_ALIASES) this.aliases.clear();
    this.aliases.set(keyOf(userId, alias), sessionId);
    return sessionId;
  }

  /**
   * Wakes the workflow of an accepted message. A worker begins the turn without it, so the wake-up is delayed until the first
   * words are there: Temporal's work does not delay them. A turn that is over by then is told within a second, the first one at
   * once; and not at all if meanwhile a message was accepted with no other ahead of it, whose wake-up tells what it did, too.
   */
  private async wakeInTime(userId: string, sessionId: string, accepted: Acceptance): Promise<void> {
    const acceptedAt = performance.now();
    const superseded = new AbortController();
    let tellBy = acceptedAt + TELL_LATER_MS;
    let tellsOthers = false;
    let abortedRun = accepted.aborted_run;
    if (accepted.accepted && accepted.position === 0) {
      const before = this.delayed.get(sessionId);
      before?.superseded.abort();
      tellsOthers = before !== undefined;
      tellBy = before?.tellBy ?? tellBy;
      // Of several the workflow can have begun only the oldest.
      abortedRun = before?.abortedRun ?? abortedRun;
      this.delayed.set(sessionId, { superseded, tellBy, abortedRun });
    }
    const signal = AbortSignal.any([superseded.signal, this.closing.signal]);
    const state = await this.turns.untilSlow(sessionId, accepted.run_seq, signal);
    const tellsLater = state === 'over' && this.woken.has(sessionId);
    if (tellsLater) await delay(Math.max(0, tellBy - performance.now()), undefined, { signal }).catch(() => {});
    const wake = async () => {
      if (this.delayed.get(sessionId)?.superseded === superseded) this.delayed.delete(sessionId);
      // After that time the sweeper wakes it, so that no wake-ups pile up while Temporal is away.
      const isLate = performance.now() - acceptedAt > WAKE_DEADLINE_MS;
      if (superseded.signal.aborted || isLate || (tellsLater && !(await this.isOpen(sessionId)))) return;
      await this.wake(userId, sessionId, { ...accepted, aborted_run: abortedRun }, tellsOthers);
    };
    await this.wakes.run(wake, superseded.signal).catch((error: unknown) => {
      if (!(error instanceof LeftTheLineError)) throw error;
    });
  }

  /** Whether to tell a workflow of a turn that is over: a wake-up would open a session that was closed or erased meanwhile. */
  private async isOpen(sessionId: string): Promise<boolean> {
    return !this.closing.signal.aborted && (await isOpen(this.deps.db, sessionId).catch(() => false));
  }

  /** Tells the workflow of a session, in the background, that what its run waits for has come: with this call. */
  goOn(session: Target, run: QueuedRun, toolCallId: string): void {
    const update = { name: submitUpdate, id: `output:${toolCallId}`, args: run, deadlineMs: WAKE_DEADLINE_MS };
    const telling = this.wakes
      .run(async () => void (await sendUpdate(this.deps.workflows, session, update)))
      .catch((error: unknown) =>
        this.deps.log.warn(
          { err: error, session: session.session_id },
          'could not wake a session; a worker will do so',
        ),
      )
      .finally(() => this.waking.delete(telling));
    this.waking.add(telling);
  }

  private async wake(userId: string, sessionId: string, accepted: Acceptance, tellsOthers: boolean): Promise<void> {
    const { agent, phase, project_id, event_seq, message_id, run_seq, model, aborted_run, children } = accepted;
    const mark = { phase, project_id, event_seq };
    try {
      await sendUpdate(
        this.deps.workflows,
        { session_id: sessionId, user_id: userId, agent, phase, project_id },
        {
          name: submitUpdate,
          // A message that is answered again has another run.
          id: `submit:${message_id}:${run_seq}`,
          args: {
            ...{ run_seq, message_id, model },
            ...(tellsOthers && { mark }),
            ...(aborted_run && { aborted_run }),
            ...(children && children.length > 0 && { ended_children: children }),
          },
          deadlineMs: WAKE_DEADLINE_MS,
        },
      );
      if (this.woken.size >= MAX_WOKEN) this.woken.clear();
      this.woken.add(sessionId);
    } catch (error) {
      this.deps.log.warn(
        { err: error, session: sessionId, run: run_seq },
        'could not wake a session; a worker will do so',
      );
    }
  }
}

/** No message has a malformed id. */
function refuseOddId(messageId: string): void {
  if (!ID_PATTERN.test(messageId)) throw messageNotFound();
}

/** True if the text can only be a session id, not an alias. */
export function isSessionId(id: string): boolean {
  return id.startsWith('ses_');
}

function keyOf(userId: string, alias: string): string {
  return JSON.stringify([userId, alias]);
}
