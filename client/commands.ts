import type { Client } from '@temporalio/client';
import {
  argumentFault,
  type ArgumentKind,
  COMMAND_NAMES,
  type CommandArgs,
  commandEntry,
  type CommandInput,
  type CommandName,
  type CommandOutcome,
  ID_EXPECTED,
  ID_PATTERN,
} from '../domain/command-table.ts';
import { PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { cleanText } from '../domain/text.ts';
import type { Db } from '../store/db.ts';
import { logReason } from '../store/events.ts';
import { findSession } from '../store/sessions.ts';
import { updateOf } from '../workflows/definitions.ts';
import { messageNotFound, sessionNotFound, updateError } from './refusals.ts';
import { sendUpdate } from './updates.ts';

/** Commands without a response by then fail with `Unavailable`. */
const DEADLINE_MS = 5_000;

/** Options of every command. */
export interface CommandOptions {
  /** The caller's id of the command, 1 to 64 of letters, digits, _ and -: a repeat returns the same outcome. */
  idempotencyKey?: string | undefined;
}

type Input<Name extends CommandName> = CommandInput<Name> & CommandOptions;
type Arguments<Name extends CommandName> =
  Partial<CommandInput<Name>> extends CommandInput<Name> ? [input?: Input<Name>] : [input: Input<Name>];

/**
 * The commands of a session, one method per entry of `COMMANDS`. Each is decided on the session's row and returns the
 * session's state afterwards.
 *
 * @throws {PerdureError} `SessionNotFound` for an unknown or another user's session, `BadRequest`, the refusal, or
 * `Unavailable` without a response in 5 s: send it again with the same idempotencyKey
 */
export type Commands = {
  readonly [Name in CommandName]: (
    user: string,
    session: string,
    ...input: Arguments<Name>
  ) => Promise<CommandOutcome<Name>>;
};

interface Deps {
  db: Db;
  temporal: Client;
}

/** Creates the methods from the command table. */
export function createCommands(deps: Deps): Commands {
  const method = (name: CommandName) => (user: string, session: string, input?: CommandOptions & Given) =>
    send(deps, { user, session, name, input: input ?? {} });
  return Object.fromEntries(COMMAND_NAMES.map((name) => [name, method(name)])) as unknown as Commands;
}

type Given = Readonly<Record<string, unknown>>;

interface Sent {
  user: string;
  session: string;
  name: CommandName;
  input: CommandOptions & Given;
}

async function send({ db, temporal }: Deps, { user, session: id, name, input }: Sent): Promise<unknown> {
  const { idempotencyKey, ...given } = input;
  const command_id = commandIdOf(idempotencyKey);
  const kinds = Object.entries(commandEntry(name).arguments);
  for (const [argument, kind] of kinds) check(argument, kind, given[argument]);
  const session = await findSession(db, user, id);
  if (session === undefined) throw sessionNotFound();
  const args: CommandArgs & Record<string, unknown> = { command_id };
  for (const [argument, kind] of kinds) {
    const value = given[argument];
    if (kind !== 'reason?') args[argument] = value;
    else if (typeof value === 'string' && value !== '') {
      const key = `${name}:${command_id}/reason`;
      args.reason_seq = await logReason(db, session.session_id, 'user', cleanText(value), key);
    }
  }
  try {
    const target = { ...session, user_id: user };
    const update = { name: updateOf(name), id: `${name}:${command_id}`, args, deadlineMs: DEADLINE_MS };
    return await sendUpdate(temporal, target, update);
  } catch (error) {
    throw updateError(error);
  }
}

/** Checked here, so that no malformed argument gets into a history. */
function check(argument: string, kind: ArgumentKind, value: unknown): void {
  const fault = argumentFault(kind, value);
  if (fault === undefined) return;
  throw kind === 'message' ? messageNotFound() : new PerdureError('BadRequest', `${argument}: expected ${fault}`);
}

function commandIdOf(key: string | undefined): string {
  if (key === undefined) return newId('cmd');
  if (ID_PATTERN.test(key)) return key;
  throw new PerdureError('BadRequest', `Idempotency-Key: expected ${ID_EXPECTED}`);
}
