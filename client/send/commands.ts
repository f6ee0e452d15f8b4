import {
  argumentFault,
  COMMAND_NAMES,
  type CommandArgs,
  commandEntry,
  type CommandInput,
  type CommandName,
  type CommandOutcome,
  type StopMeant,
} from '../../domain/command-table.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { cleanText } from '../../domain/text.ts';
import { argumentsDigest } from '../../store/arguments-digest.ts';
import type { Db } from '../../store/db.ts';
import { logMetadata, logReason } from '../../store/events.ts';
import { findSession, findSessionToStop, type OwnedSession, type SessionView } from '../../store/sessions.ts';
import { commandArguments } from '../../wire/commands.ts';
import { parseInput } from '../../wire/input.ts';
import { idempotencyKey as idempotencyKeySchema } from '../../wire/requests.ts';
import { updateOf } from '../../workflows/definitions.ts';
import { type Catalog, modelOf } from '../catalog.ts';
import { ownMetadata } from '../own-metadata.ts';
import type { Reads } from '../reads.ts';
import { messageNotFound, sessionNotFound, updateError } from '../refusal-errors.ts';
import { sendUpdate, type SessionWorkflows } from './send-update.ts';

/**
 * Commands without a response by then fail with `Unavailable`. Longer than what a workflow task may wait for while workers are
 * replaced: a second for the old worker, and twice two for an attempt that was lost or took too long (docs/deploys.md).
 */
const DEADLINE_MS = 10_000;

/** Options of every command. */
export interface CommandOptions {
  /** The caller's id of the command, 1 to 64 of letters, digits, _ and -: a repeat returns the same outcome, or is `KeyReused`. */
  idempotencyKey?: string | undefined;
}

type Input<Name extends CommandName> = CommandInput<Name> & CommandOptions;
type Arguments<Name extends CommandName> =
  Partial<CommandInput<Name>> extends CommandInput<Name> ? [input?: Input<Name>] : [input: Input<Name>];

/**
 * The commands of a session, one method per entry of `COMMANDS`. Each is decided on the session's row and returns the
 * session's state afterwards.
 *
 * @throws {PerdureError} `SessionNotFound` for an unknown or another user's session, `BadRequest`, the refusal, `KeyReused` for
 * an idempotencyKey that the session has had for this command with other arguments, or `Unavailable` without a response in 10 s: send
 * it again with the same idempotencyKey
 */
export type Commands = {
  readonly [Name in CommandName]: (
    user: string,
    session: string,
    ...input: Arguments<Name>
  ) => Promise<Name extends 'branch' ? SessionView : CommandOutcome<Name>>;
};

interface Deps {
  db: Db;
  workflows: SessionWorkflows;
  reads: Reads;
  catalog: Catalog | undefined;
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
      return send(deps, { user, session, name, commandId: key ?? newId('cmd'), mayRepeat: key !== undefined, args });
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
  /** The caller chose the id, and may have sent it before. */
  mayRepeat: boolean;
  args: Given;
}

async function send(
  { db, workflows, reads, catalog }: Deps,
  { user, session: id, name, commandId, mayRepeat, args }: Sent,
): Promise<unknown> {
  const { meant, ...session } = await sessionOf(db, { user, session: id, name, args });
  const sent: Omit<CommandArgs, 'command_id'> & Record<string, unknown> = {};
  const contents: (() => Promise<void>)[] = [];
  for (const [argument, kind] of Object.entries(commandEntry(name).arguments)) {
    const value = args[argument];
    const key = `${name}:${commandId}/${argument}`;
    if (kind === 'reason?') {
      const reason = typeof value === 'string' && value !== '' ? cleanText(value) : null;
      if (reason === null && !mayRepeat) continue;
      contents.push(async () => {
        const seq = await logReason(db, session.session_id, 'user', reason, key);
        if (reason !== null) sent.reason_seq = seq;
      });
    } else if (kind === 'metadata?') {
      const metadata = value === undefined || value === null ? null : ownMetadata(value);
      if (metadata !== null || mayRepeat) contents.push(() => logMetadata(db, session.session_id, metadata, key));
    } else {
      sent[argument] = kind === 'model?' ? modelOf(catalog, value as string | null | undefined) : value;
    }
  }
  // Once nothing more can be refused as malformed, which uses up no key.
  for (const store of contents) await store();
  try {
    const target = { ...session, user_id: user };
    // Temporal answers a repeated update by its id, whatever its arguments: those that it gets anyway are part of the id.
    const updateId = `${name}:${commandId}:${argumentsDigest(sent).toString('base64url')}`;
    // It depends on the time of the request, so a repeat may mean something else: it gets the outcome of what was meant first.
    const updateArgs = { command_id: commandId, ...sent, ...(meant && { meant }) };
    const update = { name: updateOf(name), id: updateId, args: updateArgs, deadlineMs: DEADLINE_MS };
    const outcome = await sendUpdate(workflows, target, update);
    return await completed(reads, { user, name, session: session.session_id, outcome });
  } catch (error) {
    throw error instanceof PerdureError ? error : updateError(error);
  }
}

/** The session, and what a command that stops a run means from now on, however late it is carried out. */
async function sessionOf(
  db: Db,
  { user, session: id, name, args }: Pick<Sent, 'user' | 'session' | 'name' | 'args'>,
): Promise<OwnedSession & { meant?: StopMeant }> {
  const messageId = (args['message_id'] as string | null | undefined) ?? null;
  const session = await (commandEntry(name).stops === true
    ? findSessionToStop(db, user, id, messageId)
    : findSession(db, user, id));
  if (session === undefined) throw sessionNotFound();
  return session;
}

/** The outcome with messages in place of their ids; of a command that opens a session, that session. */
async function completed(
  reads: Reads,
  { user, name, session, outcome }: { user: string; name: CommandName; session: string; outcome: object },
): Promise<object> {
  const found = { ...outcome } as Record<string, unknown>;
  for (const [member, kind] of Object.entries(commandEntry(name).outcome)) {
    if (kind === 'session') return reads.session(user, String(found[member]));
    if (kind === 'message') found[member] = await reads.message(session, String(found[member]));
  }
  return found;
}
