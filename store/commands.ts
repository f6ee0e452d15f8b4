import type { Actor, CommandRequest, Refusal, SessionMark } from '../domain/commands.ts';
import { call, type Db } from './db.ts';

/** What a command's row answers: its outcome, which was recorded, or the refusal, which was recorded too. */
export type RowOutcome = ({ ok: true } & SessionMark & Record<string, unknown>) | Refusal;

interface Sender {
  sessionId: string;
  /** `<command>:<id>`: the same id again answers the recorded outcome. */
  commandId: string;
  actor: Actor;
}

/** Carries out one command at the row, in one round trip and one transaction. */
export function applyCommand(db: Db, sender: Sender, request: CommandRequest): Promise<RowOutcome> {
  const { sessionId, commandId, actor } = sender;
  switch (request.command) {
    case 'publish':
    case 'revert':
      return call(db, 'raise_event', [sessionId, request.command, actor, commandId]);
    case 'openExisting':
      return call(db, 'open_existing', [sessionId, request.project_id, actor, commandId]);
    case 'cancel':
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
