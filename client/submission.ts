import type { Client } from '@temporalio/client';
import type { Bus } from '../bus/bus.ts';
import { newId } from '../domain/ids.ts';
import type { RunState } from '../domain/runs.ts';
import type { Db } from '../store/db.ts';
import { type Acceptance, acceptMessage } from '../store/messages.ts';
import { findSession, openAlias } from '../store/sessions.ts';
import { submitUpdate } from '../workflows/definitions.ts';
import { agentOf, type Catalog, modelOf } from './catalog.ts';
import type { ClientLog } from './log.ts';
import { type MessageInput, newMessage } from './message.ts';
import { refusalError, sessionNotFound } from './refusals.ts';
import { sendUpdate } from './updates.ts';

/** A wake-up without a response by then is left to the workers' sweeper, which finds runs that stay queued. */
const WAKE_DEADLINE_MS = 3_000;
const KNOWN_ALIASES = 10_000;

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

interface Deps {
  db: Db;
  temporal: Client;
  bus: Bus;
  log: ClientLog;
  catalog: Catalog | undefined;
  maxMessageBytes: number;
  maxQueue: number;
}

/** Accepts messages. The caller waits only for the row; the workflow is woken in the background. */
export class Submission {
  private readonly deps: Deps;
  /** Cache of aliases' sessions. An alias moves to another session only if its session is erased. */
  private readonly aliases = new Map<string, string>();

  constructor(deps: Deps) {
    this.deps = deps;
  }

  /**
   * @param options.open open a session for a new alias, after the message has been validated
   * @throws {PerdureError} `SessionNotFound`, `MessageConflict`, `TooMany`, `TooLarge`, `BadRequest`,
   * `ModelNotConfigured`
   */
  async submit(userId: string, id: string, input: MessageInput, options: { open?: boolean } = {}): Promise<Submitted> {
    const { db, catalog, maxMessageBytes, maxQueue, bus } = this.deps;
    const message = newMessage(input, maxMessageBytes);
    modelOf(catalog, message.model);
    const resolve = () => (options.open === true ? this.resolveOrOpen(userId, id) : this.resolve(userId, id));
    const accept = async (sessionId: string | undefined) => {
      if (sessionId === undefined) throw sessionNotFound();
      return { sessionId, ...(await acceptMessage(db, { sessionId, userId }, message, maxQueue)) };
    };
    let accepted = await accept(await resolve());
    // The session of a cached alias may have been erased since.
    if (!accepted.ok && accepted.code === 'SessionNotFound' && this.aliases.delete(keyOf(userId, id))) {
      accepted = await accept(await resolve());
    }
    if (!accepted.ok) throw refusalError(accepted);
    const { sessionId } = accepted;
    if (accepted.state === 'queued') {
      void this.wake(userId, sessionId, message.id, accepted);
      bus.publish({ session: sessionId, kind: 'status' });
    }
    const { run_seq, position, state, code = null } = accepted;
    const repeated = !accepted.accepted;
    return { session_id: sessionId, message_id: message.id, run_seq, position, repeated, state, code };
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
  private async resolveOrOpen(userId: string, id: string): Promise<string> {
    const known = await this.resolve(userId, id);
    if (known !== undefined) return known;
    const agent = agentOf(this.deps.catalog, undefined);
    const sessionId = newId('ses');
    const opened = { sessionId, userId, agent, workspaceRoot: null, model: null, metadata: {} };
    return this.remember(userId, id, await openAlias(this.deps.db, id, opened));
  }

  private remember(userId: string, alias: string, sessionId: string): string {
    if (this.aliases.size >= KNOWN_ALIASES) this.aliases.clear();
    this.aliases.set(keyOf(userId, alias), sessionId);
    return sessionId;
  }

  private async wake(userId: string, sessionId: string, messageId: string, accepted: Acceptance): Promise<void> {
    const { agent, phase, project_id, run_seq, model } = accepted;
    try {
      await sendUpdate(
        this.deps.temporal,
        { session_id: sessionId, user_id: userId, agent, phase, project_id },
        {
          name: submitUpdate,
          id: `submit:${messageId}`,
          args: { run_seq, message_id: messageId, model },
          deadlineMs: WAKE_DEADLINE_MS,
        },
      );
    } catch (error) {
      this.deps.log.warn(
        { err: error, session: sessionId, run: run_seq },
        'could not wake a session; a worker will do so',
      );
    }
  }
}

/** True if the text can only be a session id, not an alias. */
export function isSessionId(id: string): boolean {
  return id.startsWith('ses_');
}

function keyOf(userId: string, alias: string): string {
  return JSON.stringify([userId, alias]);
}
