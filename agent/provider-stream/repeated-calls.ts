import { objectOf, type ProviderEvent, withField } from './provider-answer-reader.ts';

/** Before the number that is appended to an id that is sent again. */
const MARK = '\u0001';

/** The id of a call as its server sent it. */
export function sentId(id: string): string {
  return id.split(MARK, 1)[0] ?? id;
}

/**
 * Marks the ids of tool calls that a chat completions server sends again, at another index or once the first one is complete. The
 * SDKs would replace such an id by a generated one, and nobody could tell that both are one call.
 */
export class RepeatedCalls {
  /** How often each id was sent for a call. */
  private readonly times = new Map<string, number>();
  /** The latest call at each index. */
  private readonly latest = new Map<unknown, { id: string; input: JsonEnd }>();

  /** A call's delta, with its id marked if it begins a call whose id another one has. */
  marked(delta: unknown): unknown {
    const call = objectOf(delta);
    const called = objectOf(call?.['function']);
    if (call === undefined || called === undefined) return delta;
    const { id } = call;
    const index = call['index'] ?? id;
    const { name, arguments: text } = called;
    const input = typeof text === 'string' ? text : '';
    const latest = this.latest.get(index);
    const isNamed = isText(id) && isText(name);
    // Some servers repeat id and name with each piece, also with an empty one at the end.
    if (!isNamed || (latest?.id === id && (input.trim() === '' || !latest.input.isReached))) {
      latest?.input.push(input);
      return delta;
    }
    this.latest.set(index, { id, input: new JsonEnd(input) });
    return this.begun(call, id);
  }

  private begun(call: ProviderEvent, id: string): ProviderEvent {
    const times = this.times.get(id) ?? 0;
    this.times.set(id, times + 1);
    return times === 0 ? call : withField(call, 'id', `${id}${MARK}${times}`);
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}

/** Finds the end of an object of JSON in pieces, which are looked at only when that is asked for. */
class JsonEnd {
  private pieces: string[];
  private depth = 0;
  private isInString = false;
  private isEscaped = false;
  private hasEnded = false;

  constructor(piece: string) {
    this.pieces = [piece];
  }

  push(piece: string): void {
    this.pieces.push(piece);
  }

  get isReached(): boolean {
    for (const piece of this.pieces) for (const character of piece) this.read(character);
    this.pieces = [];
    return this.hasEnded;
  }

  private read(character: string): void {
    if (this.isInString) {
      if (character === '"' && !this.isEscaped) this.isInString = false;
      this.isEscaped = character === '\\' && !this.isEscaped;
    } else if (character === '"') this.isInString = true;
    else if (character === '{' || character === '[') this.depth += 1;
    else if (character === '}' || character === ']') {
      this.depth -= 1;
      this.hasEnded ||= this.depth === 0;
    }
  }
}
