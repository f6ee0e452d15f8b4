import type { z } from 'zod';
import { plainName } from '../../domain/attachments.ts';
import { type ErrorCode, PerdureError } from '../../domain/errors.ts';
import { MAX_ANSWER } from '../../domain/max-answer.ts';
import { byteLength } from '../../domain/text.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { exportedAttachment, exportedMessage, exportedPart, exportedSession } from '../../wire/transfer.ts';
import { agentOf, type Catalog, modelOf } from '../catalog.ts';
import { ownMetadata } from '../own-metadata.ts';
import type { ParsedLine } from './line-reader.ts';

/** Positions from one message of the user to the next. */
const BETWEEN_MESSAGES = 1_000;

/** Longest message with its parts, in bytes: what the model can see of a conversation (32 MiB), and an answer. */
const MAX_MESSAGE = 3 * MAX_ANSWER;

/** What the new session has instead of what the export names, which may not be configured here. */
export interface ImportChoice {
  agent?: string | undefined;
  /** `provider/model` */
  model?: string | undefined;
}

/** What an import has read so far: what its next line may be. */
interface Place {
  session: z.output<typeof exportedSession>;
  messages: number;
  /** The newest message; undefined: none yet. */
  message: { id: string; position: number } | undefined;
  /** The index of its newest part; -1: none yet. */
  part: number;
  /** Of the lines of the newest message and its parts. */
  bytes: number;
}

/**
 * Checks the lines of an import one by one, in constant memory. Ids that occur twice are found when the lines are stored.
 * @throws {InvalidInputError} naming the line: `InvalidLine`, `WrongOrder`, `ForeignId`; `AgentNotConfigured`, `ModelNotConfigured`
 */
export class ImportCheck {
  private place: Place | undefined;
  private readonly catalog: Catalog | undefined;
  private readonly choice: ImportChoice;

  constructor(catalog: Catalog | undefined, choice: ImportChoice) {
    this.catalog = catalog;
    this.choice = choice;
  }

  /** Checks the next line. Returns it as it is stored: JSON whose numbers Postgres can hold, too. */
  line({ number, value }: ParsedLine): string {
    const field = `line ${number}`;
    const { kind } = value;
    if (kind === 'content') throw wrongOrder(field, 'an attachment before it, or a part whose data is null');
    if (!isKind(kind)) {
      const expected = '"session", "attachment", "message", "part" or "content"';
      throw new InvalidInputError([{ field: `${field}.kind`, expected }], 'InvalidLine');
    }
    if ((kind === 'session') !== (this.place === undefined)) {
      throw wrongOrder(field, this.place ? 'an attachment, a message or a part' : 'the line of the session first');
    }
    this[kind](value, field);
    const stored = JSON.stringify(value);
    this.count(stored, field);
    return stored;
  }

  /** The number of messages, after the last line. */
  end(lines: number): number {
    if (!this.place) throw wrongOrder('line 1', 'the line of the session first');
    const { session, messages } = this.place;
    if (messages === session.messages) return messages;
    const expected = `${session.messages} messages as the first line says, not ${messages}`;
    throw new InvalidInputError([{ field: `line ${lines}`, expected }], 'InvalidLine');
  }

  private session(value: Record<string, unknown>, field: string): void {
    const session = parsed(exportedSession, value, field);
    const { agent = session.agent, model = session.model } = this.choice;
    orAnother('agent', () => agentOf(this.catalog, agent));
    orAnother('model', () => modelOf(this.catalog, model));
    Object.assign(value, { agent, model });
    ownMetadata(session.metadata);
    this.place = { session, messages: 0, message: undefined, part: -1, bytes: 0 };
  }

  private attachment(value: unknown, field: string): void {
    parsed(exportedAttachment, value, field);
    const place = this.place as Place;
    if (place.message) throw wrongOrder(field, 'a message or a part: attachments come before all messages');
    place.bytes = 0;
  }

  private message(value: unknown, field: string): void {
    const { id, position, role } = parsed(exportedMessage, value, field);
    const place = this.place as Place;
    if (place.message && position <= place.message.position) {
      throw wrongOrder(
        `${field}.position`,
        `more than ${place.message.position}, the position of the message before it`,
      );
    }
    // Answers and summaries are given the positions between those of the user's messages.
    if ((position % BETWEEN_MESSAGES === 0) !== (role === 'user')) {
      const expected = `${role === 'user' ? 'a' : 'no'} multiple of ${BETWEEN_MESSAGES} for the role "${role}"`;
      throw new InvalidInputError([{ field: `${field}.position`, expected }], 'InvalidLine');
    }
    place.message = { id, position };
    place.messages += 1;
    place.part = -1;
    place.bytes = 0;
  }

  private part(value: Record<string, unknown>, field: string): void {
    const { message_id, index, data } = parsed(exportedPart, value, field);
    const { filename } = data as { filename?: unknown };
    // As in new messages.
    if (typeof filename === 'string') value['data'] = { ...data, filename: plainName(filename) };
    const place = this.place as Place;
    if (!place.message) throw wrongOrder(field, 'a message before its parts');
    if (message_id !== place.message.id) {
      const expected = `"${place.message.id}", the id of the message before it`;
      throw new InvalidInputError([{ field: `${field}.message_id`, expected }], 'ForeignId');
    }
    if (index <= place.part) {
      throw wrongOrder(`${field}.index`, `more than ${place.part}, the index of the part before it`);
    }
    place.part = index;
  }

  /** Whatever reads a message holds it whole in memory. */
  private count(stored: string, field: string): void {
    const place = this.place as Place;
    place.bytes += byteLength(stored);
    if (place.bytes <= MAX_MESSAGE) return;
    throw new InvalidInputError(
      [{ field, expected: `at most ${MAX_MESSAGE} bytes in a message and its parts` }],
      'TooLarge',
    );
  }
}

/** Adds to a refusal that the caller can choose another one. */
function orAnother(name: keyof ImportChoice, check: () => unknown): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof PerdureError)) throw error;
    throw new PerdureError(error.code, `${error.message}; an import may choose another "${name}"`);
  }
}

const KINDS = ['session', 'attachment', 'message', 'part'] as const;

function isKind(kind: unknown): kind is (typeof KINDS)[number] {
  return (KINDS as readonly unknown[]).includes(kind);
}

function wrongOrder(field: string, expected: string): InvalidInputError {
  return new InvalidInputError([{ field, expected }], 'WrongOrder');
}

/** A line that fits a schema. @throws {InvalidInputError} `InvalidLine` */
export function parsed<T>(schema: z.ZodType<T>, value: unknown, field: string): T {
  try {
    return parseInput(schema, value, [field]);
  } catch (error) {
    throw error instanceof InvalidInputError
      ? new InvalidInputError(error.errors, 'InvalidLine' satisfies ErrorCode)
      : error;
  }
}
