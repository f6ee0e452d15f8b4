import type { z } from 'zod';
import { InvalidInputError, MAX_DEPTH, parseInput } from '../../wire/input.ts';
import { JsonError, type JsonListener, JsonScanner } from './json-scanner.ts';
import { KeptMessage, jsonObject } from './kept-message.ts';
import { badBody, type BodyLimit, parseJson, bodyText, tooLarge } from './read-body.ts';

interface Transcript {
  messages: unknown[];
}

/**
 * Messages and JSON values take time to scan besides their bytes: there may be one per so many bytes of the body's limit. No
 * message of the AI SDK is shorter, and the keys and values of one have more bytes on average.
 */
const BYTES_PER_MESSAGE = 32;
const BYTES_PER_VALUE = 4;

/**
 * The JSON body of a request whose `messages` may be a long transcript. Only the last message is kept, and of a long answer what
 * responds to its tool calls (`KeptMessage`): the earlier ones must be valid JSON and are empty slots in the returned array.
 * @param limits `whole` for the body; `kept` for the last message and for each other field in `schema`
 * @throws {PerdureError} `TooLarge` as soon as `whole` is exceeded, or at the end for `kept`; `BadRequest` naming the
 * field, also for too many messages or values
 */
export async function readTranscript<T extends Transcript>(
  request: Request,
  schema: z.ZodObject & z.ZodType<T>,
  limits: { whole: BodyLimit; kept: BodyLimit },
): Promise<T> {
  const { bytes } = limits.whole;
  const most = { messages: Math.ceil(bytes / BYTES_PER_MESSAGE), text: limits.kept.bytes };
  const kept = new KeptMembers(new Set(Object.keys(schema.shape)), most);
  const values = Math.ceil(bytes / BYTES_PER_VALUE);
  await scan(request, limits.whole, new JsonScanner(kept, { depth: MAX_DEPTH, text: limits.kept.bytes, values }));
  if (kept.tooLong !== undefined) throw tooLarge(kept.tooLong, limits.kept);
  const body = parseInput(schema, parseJson(kept.json()));
  const messages: unknown[] = [];
  messages[kept.count - 1] = body.messages[0];
  return { ...body, messages };
}

async function scan(request: Request, limit: BodyLimit, scanner: JsonScanner): Promise<void> {
  let isBlank = true;
  try {
    for await (const piece of bodyText(request, limit)) {
      isBlank &&= piece.trim() === '';
      scanner.push(piece);
    }
    if (!isBlank) scanner.finish();
  } catch (error) {
    throw error instanceof JsonError ? badBody(error.message) : error;
  }
}

function tooMany(messages: number): InvalidInputError {
  return new InvalidInputError([{ field: 'messages', expected: `at most ${messages} messages` }]);
}

/** Collects the needed fields of a body while it arrives. Of duplicate fields the last one wins, as with JSON.parse. */
class KeptMembers implements JsonListener {
  /** Number of messages. */
  count = 0;
  private readonly names: ReadonlySet<string>;
  private readonly most: { messages: number; text: number };
  /** Fields in JSON, by name; undefined: too long. */
  private readonly members = new Map<string, string | undefined>();
  private message: KeptMessage | undefined;
  private last: string | undefined;
  private root: string | undefined = '{}';
  private wanted: 'root' | 'name' | 'member' | 'message' = 'root';
  private name = '';
  private isInMessages = false;

  constructor(names: ReadonlySet<string>, most: { messages: number; text: number }) {
    this.names = names;
    this.most = most;
  }

  /** The body in JSON, with the last message only. */
  json(): string {
    if (this.root !== '{}') return this.root ?? '';
    return jsonObject([...this.members, ...(this.count > 0 ? [['messages', `[${this.last}]`] as const] : [])]);
  }

  /** The first field that exceeds `kept`. */
  get tooLong(): string | undefined {
    if (this.root === undefined) return 'body';
    if (this.count > 0 && this.last === undefined) return `messages[${this.count - 1}]`;
    return [...this.members].find(([, value]) => value === undefined)?.[0];
  }

  begin(depth: number, what: 'key' | 'value', first: string): ReturnType<JsonListener['begin']> {
    if (depth === 0) return this.want('root', first !== '{');
    if (what === 'key') return this.want('name', depth === 1);
    if (depth === 2 && this.isInMessages) {
      this.count += 1;
      if (this.count > this.most.messages) throw tooMany(this.most.messages);
      this.wanted = 'message';
      const message = new KeptMessage(this.most.text);
      this.message = message;
      return (piece) => message.push(piece);
    }
    return depth === 1 && this.beginMember(first);
  }

  end(text: string | undefined): void {
    if (this.wanted === 'root') this.root = text;
    else if (this.wanted === 'name') this.name = text === undefined ? '' : (JSON.parse(text) as string);
    else if (this.wanted === 'member') this.members.set(this.name, text);
    else this.last = this.message?.end();
  }

  private beginMember(first: string): boolean {
    this.isInMessages = this.name === 'messages' && first === '[';
    if (this.name === 'messages') {
      this.members.delete(this.name);
      this.count = 0;
    }
    if (this.isInMessages) this.members.set('messages', '[]');
    // parseJson refuses the name "__proto__".
    return !this.isInMessages && this.want('member', this.names.has(this.name) || this.name === '__proto__');
  }

  private want(what: typeof this.wanted, isWanted = true): boolean {
    if (isWanted) this.wanted = what;
    return isWanted;
  }
}
