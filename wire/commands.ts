import { z } from 'zod';
import {
  type ArgumentKind,
  type CommandEntry,
  commandEntry,
  type CommandName,
  type OutcomeKind,
} from '../domain/command-table.ts';
import { PHASES } from '../domain/phases.ts';
import { id, messageRef, reason } from './requests.ts';

// Request and response schemas of commands, derived from the command table.

const count = z.int().min(0);
const mark = z.object({
  phase: z.enum(PHASES),
  project_id: z.string().nullable(),
  event_seq: count.meta({ description: 'Greater in newer responses' }),
});
const commandOutcome = mark.meta({ id: 'CommandOutcome', description: 'The state of the session afterwards.' });

const MEMBERS: Readonly<Record<OutcomeKind, z.ZodType>> = {
  flag: z.boolean(),
  'aborted run': count.nullable().meta({ description: 'The run that was aborted' }),
  'dequeued run': count.meta({ description: 'The run that was cancelled' }),
  'dropped messages': z.array(z.string()).meta({ description: 'Queued messages that were dropped' }),
};

function argumentSchema(kind: ArgumentKind): z.ZodType {
  if (kind === 'id') return id;
  if (kind === 'message') return messageRef;
  if (kind === 'flag?') return z.boolean('true or false').optional();
  if (kind === 'reason?') return reason;
  return z.enum(kind, kind.map((word) => `"${word}"`).join(' or '));
}

/** The arguments in a command's path. */
export function pathArguments({ path }: CommandEntry): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
}

/** The schemas of the arguments in a command's path, by name. */
export function pathParameters(entry: CommandEntry): Record<string, z.ZodType> {
  const names = new Set(pathArguments(entry));
  const inPath = Object.entries(entry.arguments).filter(([name]) => names.has(name));
  return Object.fromEntries(inPath.map(([name, kind]) => [name, argumentSchema(kind)]));
}

/** The schema of a command's arguments, except those named in `without`. */
export function commandArguments(
  name: CommandName,
  without: readonly string[] = [],
): z.ZodType<Record<string, unknown>> {
  const kinds = Object.entries(commandEntry(name).arguments).filter(([argument]) => !without.includes(argument));
  return z.strictObject(Object.fromEntries(kinds.map(([argument, kind]) => [argument, argumentSchema(kind)])));
}

/** The schema of a command's body: the arguments that are not in its path. Undefined: no body. */
export function commandBody(name: CommandName): z.ZodType<Record<string, unknown>> | undefined {
  const entry = commandEntry(name);
  return entry.method === 'delete' ? undefined : commandArguments(name, pathArguments(entry));
}

/** The schema of a command's response. */
export function commandAnswer(name: CommandName): z.ZodType {
  const members = Object.entries(commandEntry(name).outcome);
  if (members.length === 0) return commandOutcome;
  const shape = Object.fromEntries(members.map(([member, kind]) => [member, MEMBERS[kind]]));
  return mark.extend(shape).meta({ id: `${name[0]?.toUpperCase()}${name.slice(1)}Outcome` });
}
