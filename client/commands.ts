import type { Client } from '@temporalio/client';
import {
  argumentFault,
  COMMAND_NAMES,
  type CommandArgs,
  commandEntry,
  type CommandInput,
  type CommandName,
  type CommandOutcome,
} from '../domain/command-table.ts';
import { newId } from '../domain/ids.ts';
import { cleanText } from '../domain/text.ts';
import type { Db } from '../store/db.ts';
import { logReason } from '../store/events.ts';
import { findSession } from '../store/sessions.ts';
import { commandArguments } from '../wire/commands.ts';
import { parseInput } from '../wire/input.ts';
import { idempotencyKey as idempotencyKeySchema } from '../wire/requests.ts';
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

type Given = Readonly<Record<string, unknown>>;

/** Creates the methods from the command table. */
export function createCommands(deps: Deps): Commands {
  const method = (name: CommandName) => {
    const schema = commandArguments(name);
    return async (user: string, session: string, { idempotencyKey, ...given }: CommandOptions & Given = {}) => {
      refuseOddMessage(name, given);
      const key = parseInput(idempotencyKeySchema.optional(), idempotencyKey, ['Idempotency-Key']);
      const args = parseInput(schema, given);
      return send(deps, { user, session, name, commandId: key ?? newId('cmd'), args });
    };
  };
  return Object.fromEntries(COMMAND_NAMES.map((name) => [name, method(name)])) as unknown as Commands;
}

/** No message has a malformed id. */
function refuseOddMessage(name: CommandName, given: Given): void {
  for (const [argument, kind] of Object.entries(commandEntry(name).arguments)) {
    if (kind === 'message' && argumentFault(kind, given[argument]) !== undefined) throw messageNotFound();
  }
}

interface Sent {
  user: string;
  session: string;
  name: CommandName;
  commandId: string;
  args: Given;
}

async function send({ db, temporal }: Deps, { user, session: id, name, commandId, args }: Sent): Promise<unknown> {
  const session = await findSession(db, user, id);
  if (session === undefined) throw sessionNotFound();
  const sent: CommandArgs & Record<string, unknown> = { command_id: commandId };
  for (const [argument, kind] of Object.entries(commandEntry(name).arguments)) {
    const value = args[argument];
    if (kind !== 'reason?') sent[argument] = value;
    else if (typeof value === 'string' && value !== '') {
      const key = `${name}:${commandId}/reason`;
      sent.reason_seq = await logReason(db, session.session_id, 'user', cleanText(value), key);
    }
  }
  try {
    const target = { ...session, user_id: user };
    const update = { name: updateOf(name), id: `${name}:${commandId}`, args: sent, deadlineMs: DEADLINE_MS };
    return await sendUpdate(temporal, target, update);
  } catch (error) {
    throw updateError(error);
  }
}
