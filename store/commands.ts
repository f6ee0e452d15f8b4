import type { AppliedCommand, ApplyArgs } from '../domain/commands.ts';
import { call, type Db } from './db.ts';

/**
 * Carries out one command at the row, in one round trip and one transaction. The outcome or refusal is recorded: the
 * same command id again gets the same answer.
 */
export async function applyCommand(db: Db, args: ApplyArgs): Promise<AppliedCommand> {
  const { session_id: sessionId, command_id: commandId, actor, request } = args;
  switch (request.command) {
    case 'publish':
    case 'revert':
      return call(db, 'raise_event', [sessionId, request.command, actor, commandId]);
    case 'openExisting':
      return call(db, 'open_existing', [sessionId, request.project_id, actor, commandId]);
    case 'cancel':
      if (request.reason) await call(db, 'log_reason', [sessionId, actor, request.reason]);
      return call(db, 'cancel_session', [sessionId, actor, commandId, cancelToken(commandId)]);
    case 'abort':
      return call(db, 'abort_run', [sessionId, actor, commandId]);
    case 'cancelQueued':
      return call(db, 'cancel_queued', [sessionId, request.message_id, actor, commandId]);
    case 'close':
      return call(db, 'close_session', [sessionId, request.abort, actor, commandId]);
    case 'refuse':
      return call(db, 'refuse_command', [sessionId, request.name, request.code, actor, commandId]);
  }
}

/** The token of a cancel is the id that its sender gave it. */
function cancelToken(commandId: string): string {
  return commandId.slice(commandId.indexOf(':') + 1);
}
