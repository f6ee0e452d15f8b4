import type { Client } from '@temporalio/client';
import type { UpdateDefinition } from '@temporalio/common';
import type { AbortOutcome, CancelOutcome, CloseOutcome, CommandArgs, CommandOutcome } from '../domain/commands.ts';
import { PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { cleanText } from '../domain/text.ts';
import { ID_PATTERN } from '../wire/requests.ts';
import type { Db } from '../store/db.ts';
import { logReason } from '../store/events.ts';
import { findSession } from '../store/sessions.ts';
import * as updates from '../workflows/definitions.ts';
import { messageNotFound, sessionNotFound, updateError } from './refusals.ts';
import { sendUpdate, type Target } from './updates.ts';

/** No answer by then is `Unavailable`. */
const DEADLINE_MS = 5_000;

/** What may go along with every command. */
export interface CommandOptions {
  /** The caller's own id of the command, 1 to 64 of letters, digits, _ and -: sent again, it gets the same answer. */
  idempotencyKey?: string | undefined;
  /** In the user's words; kept in the session's log. */
  reason?: string | null | undefined;
}

type Outcome = CommandOutcome & { run_seq?: number | null; aborted?: boolean };

/**
 * The commands of a session. Each is judged by the row and answers what the session is afterwards.
 *
 * @throws {PerdureError} `SessionNotFound` for an unknown session and somebody else's alike, the row's refusal, or
 * `Unavailable` where there is no answer in 5 s: then the outcome is unknown, and the same idempotencyKey finds out
 */
export class Commands {
  private readonly db: Db;
  private readonly temporal: Client;

  constructor(db: Db, temporal: Client) {
    this.db = db;
    this.temporal = temporal;
  }

  publish(user: string, session: string, options?: CommandOptions): Promise<CommandOutcome> {
    return this.send(user, session, updates.publishUpdate, {}, options);
  }

  revert(user: string, session: string, options?: CommandOptions): Promise<CommandOutcome> {
    return this.send(user, session, updates.revertUpdate, {}, options);
  }

  /** The phase's own cancel, and an abort of the run in flight. */
  cancel(user: string, session: string, options?: CommandOptions): Promise<CancelOutcome> {
    return this.send(user, session, updates.cancelUpdate, {}, options);
  }

  /** Stops the run in flight; with none it answers `aborted: false`. */
  abort(user: string, session: string, options?: CommandOptions): Promise<AbortOutcome> {
    return this.send(user, session, updates.abortUpdate, {}, options);
  }

  /** Opens a project that is there, or a new one of this id. */
  openExisting(user: string, session: string, projectId: string, options?: CommandOptions): Promise<CommandOutcome> {
    if (!ID_PATTERN.test(projectId)) {
      return Promise.reject(new PerdureError('BadRequest', 'project_id: expected 1 to 64 letters, digits, _ and -'));
    }
    return this.send(user, session, updates.openExistingUpdate, { project_id: projectId }, options);
  }

  /** Takes a message back that no run has begun to answer. */
  cancelQueued(user: string, session: string, messageId: string, options?: CommandOptions): Promise<CommandOutcome> {
    // No message is called otherwise, and nothing else may get into a history.
    if (!ID_PATTERN.test(messageId)) return Promise.reject(messageNotFound());
    return this.send(user, session, updates.cancelQueuedUpdate, { message_id: messageId }, options);
  }

  /** Closes the session; the next command opens it again. With a run in flight only where `abort` is true. */
  close(
    user: string,
    session: string,
    { abort = false, ...options }: CommandOptions & { abort?: boolean | undefined } = {},
  ): Promise<CloseOutcome> {
    return this.send(user, session, updates.closeUpdate, { abort }, options);
  }

  private async send<Answer extends Outcome, Args extends CommandArgs>(
    userId: string,
    id: string,
    name: UpdateDefinition<Answer, [Args]>,
    args: Omit<Args, keyof CommandArgs>,
    { idempotencyKey, reason }: CommandOptions = {},
  ): Promise<Answer> {
    const commandId = commandIdOf(idempotencyKey);
    const session = await findSession(this.db, userId, id);
    if (session === undefined) throw sessionNotFound();
    const reasonId = `${name.name}:${commandId}/reason`;
    const reason_seq = reason
      ? await logReason(this.db, session.session_id, 'user', cleanText(reason), reasonId)
      : undefined;
    const command = { command_id: commandId, ...(reason_seq !== undefined && { reason_seq }) };
    return this.ask({ ...session, user_id: userId }, name, { ...args, ...command } as unknown as Args);
  }

  private async ask<Answer, Args extends CommandArgs>(
    target: Target,
    name: UpdateDefinition<Answer, [Args]>,
    args: Args,
  ): Promise<Answer> {
    const id = `${name.name}:${args.command_id}`;
    try {
      return await sendUpdate(this.temporal, target, { name, id, args, deadlineMs: DEADLINE_MS });
    } catch (error) {
      throw updateError(error);
    }
  }
}

function commandIdOf(key: string | undefined): string {
  if (key === undefined) return newId('cmd');
  if (ID_PATTERN.test(key)) return key;
  throw new PerdureError('BadRequest', 'Idempotency-Key: expected 1 to 64 letters, digits, _ and -');
}
