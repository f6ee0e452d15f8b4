import { z } from 'zod';
import type { AppliedCommand, ApplyArgs } from '../domain/activities.ts';
import { snakeCase } from '../domain/command-table.ts';
import { cleanText } from '../domain/text.ts';
import { argumentsDigest } from './arguments-digest.ts';
import { call, type Db } from './db.ts';
import { logReason } from './events.ts';
import { appliedCommand } from './results.ts';

/** The reason of a raw signal is truncated to this length, in UTF-16 units. */
const MAX_REASON = 1_000;

const applied = z.looseObject({ above: z.array(z.string()).exactOptional() });

/**
 * Carries out a command: one transaction, which records the outcome or refusal under the command id. `above`: the sessions above
 * the child that it was about.
 * @param judged what the command's function gets besides the arguments. A repeat may come with other facts.
 */
export async function applyCommand(
  db: Db,
  args: ApplyArgs,
  judged: object = {},
): Promise<{ outcome: AppliedCommand; above: readonly string[] }> {
  const { session_id: sessionId, command_id: commandId, actor, meant } = args;
  const { command, ...request } = args.request;
  const { reason, ...given } = request as Record<string, unknown>;
  if (typeof reason === 'string' && reason !== '') {
    await logReason(db, sessionId, actor, cleanText(reason.slice(0, MAX_REASON)), `${commandId}/reason`);
  }
  const all = JSON.stringify({ ...given, ...judged, meant });
  const values = [sessionId, snakeCase(command), all, actor, commandId, argumentsDigest(given)];
  const { above = [], ...outcome } = await call(db, applied, 'apply_command', values);
  return { outcome: appliedCommand.parse(outcome), above };
}
