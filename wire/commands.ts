import { z } from 'zod';
import {
  type ArgumentKind,
  type CommandEntry,
  commandEntry,
  type CommandName,
  type OutcomeKind,
} from '../domain/command-table.ts';
import { ANSWERS } from '../domain/permissions.ts';
import { PHASES } from '../domain/phases.ts';
import { id, messageRef, metadata, modelRef, reason } from './requests.ts';
import { childRun, sessionView, uiMessage } from './responses.ts';

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
  'dequeued runs': z.array(count).meta({ description: 'Queued runs that were cancelled' }),
  'queued run': count.meta({ description: 'The run that does it' }),
  'answered run': count.nullable().meta({ description: 'The run that goes on; null: it is that of `child`' }),
  'answered child': childRun.nullable().meta({ description: 'The run of a subagent that goes on' }),
  'dropped messages': z.array(z.string()).meta({ description: 'Queued messages that were dropped' }),
  'ended children': z.array(childRun).meta({ description: 'Runs of subagents that ended with this' }),
  count,
  call: z.string().meta({ description: 'The id of the tool call' }),
  answer: z.enum(ANSWERS).meta({ description: 'What was decided' }),
  'message id': z.string().meta({ description: 'The id of a message' }),
  session: z.string(),
  message: uiMessage,
};

function argumentSchema(kind: ArgumentKind): z.ZodType {
  if (kind === 'id') return id;
  if (kind === 'message') return messageRef;
  if (kind === 'true by default?') return z.boolean('true or false').default(true);
  if (kind === 'flag?') return z.boolean('true or false').optional();
  if (kind === 'reason?') return reason;
  if (kind === 'metadata?') return metadata.nullish();
  if (kind === 'model?') return modelRef.nullish();
  if (kind === 'message?') return id.nullish();
  if (kind === 'count?') return z.int('a whole number').min(1, 'a number of at least 1').max(1_000_000).nullish();
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

/** Whether a command opens a session, which is its response. */
export function opensSession(name: CommandName): boolean {
  return Object.values(commandEntry(name).outcome).includes('session');
}

/** The schema of a command's response. */
export function commandAnswer(name: CommandName): z.ZodType {
  if (opensSession(name)) return sessionView;
  const members = Object.entries(commandEntry(name).outcome);
  if (members.length === 0) return commandOutcome;
  const shape = Object.fromEntries(members.map(([member, kind]) => [member, MEMBERS[kind]]));
  return mark.extend(shape).meta({ id: `${name[0]?.toUpperCase()}${name.slice(1)}Outcome` });
}
