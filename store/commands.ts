import type { AppliedCommand, ApplyArgs } from '../domain/commands.ts';
import { cleanText } from '../domain/text.ts';
import { call, type Db } from './db.ts';
import { logReason } from './events.ts';
import { appliedCommand } from './results.ts';

/** Longest reason that is kept of a raw signal, in UTF-16 units. */
const LONGEST_REASON = 1_000;

/**
 * Carries out one command at the row, in one round trip and one transaction. The outcome or refusal is recorded: the
 * same command id again gets the same answer.
 */
export async function applyCommand(db: Db, args: ApplyArgs): Promise<AppliedCommand> {
  const { session_id: sessionId, command_id: commandId, actor, request } = args;
  switch (request.command) {
    case 'publish':
    case 'revert':
      return call(db, appliedCommand, 'raise_event', [sessionId, request.command, actor, commandId]);
    case 'openExisting':
      return call(db, appliedCommand, 'open_existing', [sessionId, request.project_id, actor, commandId]);
    case 'cancel':
      if (request.reason) await logReason(db, sessionId, actor, reasonOf(request.reason), `${commandId}/reason`);
      return call(db, appliedCommand, 'cancel_session', [sessionId, actor, commandId, cancelToken(commandId)]);
    case 'abort':
      return call(db, appliedCommand, 'abort_run', [sessionId, actor, commandId]);
    case 'cancelQueued':
      return call(db, appliedCommand, 'cancel_queued', [sessionId, request.message_id, actor, commandId]);
    case 'close':
      return call(db, appliedCommand, 'close_session', [sessionId, request.abort, actor, commandId]);
    case 'refuse':
      return call(db, appliedCommand, 'refuse_command', [sessionId, request.name, request.code, actor, commandId]);
  }
}

/** What a raw signal brought, as a row takes it. */
function reasonOf(typed: string): string {
  return cleanText(typed.slice(0, LONGEST_REASON));
}

/** The token of a cancel is the id that its sender gave it. */
function cancelToken(commandId: string): string {
  return commandId.slice(commandId.indexOf(':') + 1);
}
