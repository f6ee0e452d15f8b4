import { snakeCase } from '../domain/command-table.ts';
import type { AppliedCommand, ApplyArgs } from '../domain/commands.ts';
import { cleanText } from '../domain/text.ts';
import { call, type Db } from './db.ts';
import { logReason } from './events.ts';
import { appliedCommand } from './results.ts';

/** Longest reason that is kept of a raw signal, in UTF-16 units. */
const LONGEST_REASON = 1_000;

/**
 * Carries out one command at the row: one call of its function `cmd_<name>(session, args, actor, command_id)` in
 * store/sql/commands.sql, which is one transaction. It records the outcome or refusal under the command id.
 */
export async function applyCommand(db: Db, args: ApplyArgs): Promise<AppliedCommand> {
  const { session_id: sessionId, command_id: commandId, actor } = args;
  const { command, ...request } = args.request;
  const { reason, ...given } = request as Record<string, unknown>;
  if (typeof reason === 'string' && reason !== '') {
    await logReason(db, sessionId, actor, cleanText(reason.slice(0, LONGEST_REASON)), `${commandId}/reason`);
  }
  return call(db, appliedCommand, `cmd_${snakeCase(command)}`, [sessionId, JSON.stringify(given), actor, commandId]);
}
