import { LEFT_OUT } from '../../wire/requests.ts';
import { type JsonListener, JsonScanner } from './json-scanner.ts';

/** What a response to tool calls needs of an answer, and of each of its parts. */
const OF_ANSWER: ReadonlySet<string> = new Set(['id', 'role']);
const OUTCOMES = ['output', 'errorText'];
const OF_PART: ReadonlySet<string> = new Set(['type', 'toolCallId', 'state', 'preliminary', ...OUTCOMES]);
/** Not what was asked, which may have any length. */
const OF_APPROVAL: ReadonlySet<string> = new Set(['approved', 'reason']);

/**
 * A message of a transcript, while it arrives. An answer that is longer than the limit is reduced to its id, its role, and of its
 * tool calls what a page may respond with: its other parts, the inputs of calls and the outputs of earlier ones may have any length.
 */
export class KeptMessage {
  /** Maximum length of what is kept, in UTF-16 units. */
  private readonly limit: number;
  private text = '';
  private long: { answer: ReducedAnswer; scanner: JsonScanner } | undefined;

  constructor(limit: number) {
    this.limit = limit;
  }

  push(piece: string): void {
    if (this.long !== undefined) return this.long.scanner.push(piece);
    this.text += piece;
    if (this.text.length <= this.limit) return;
    const answer = new ReducedAnswer(this.limit);
    // The body's scanner counts for both.
    const scanner = new JsonScanner(answer, { depth: Infinity, text: this.limit, values: Infinity });
    this.long = { answer, scanner };
    scanner.push(this.text);
    this.text = '';
  }

  /** The whole message in JSON; undefined: it is too long. */
  end(): string | undefined {
    if (this.long === undefined) return this.text;
    this.long.scanner.finish();
    return this.long.answer.json();
  }
}

/**
 * Collects what `OF_ANSWER`, `OF_PART` and `OF_APPROVAL` name. The outcomes of earlier steps are left out, because their calls have
 * ended; of the last step those that have no room, the later ones first, because its calls wait one after the other.
 */
class ReducedAnswer implements JsonListener {
  private readonly limit: number;
  private readonly members = new Map<string, string>();
  private parts: Map<string, string>[] = [];
  /** The parts of the last step that have an outcome, in order. */
  private withOutcome: Map<string, string>[] = [];
  private size = 0;
  private isTooLong = false;
  private name = '';
  private wanted: 'name' | 'member' = 'name';
  /** Of the answer itself, or the part that is arriving. */
  private into = this.members;
  /** Of the part, while it arrives. */
  private approval: Map<string, string> | undefined;
  private isInParts = false;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Undefined: it is no answer, or even what is needed is too long. */
  json(): string | undefined {
    this.partEnded();
    if (this.isTooLong || JSON.parse(this.members.get('role') ?? 'null') !== 'assistant') return undefined;
    return jsonObject([...this.members, ['parts', `[${this.parts.map((part) => jsonObject([...part])).join(',')}]`]]);
  }

  begin(depth: number, what: 'key' | 'value', first: string): boolean {
    const isOfPart = depth === 3 && this.isInParts;
    const isOfApproval = depth === 4 && this.approval !== undefined;
    if (what === 'key') return this.want('name', depth === 1 || isOfPart || isOfApproval);
    if (depth === 1) return this.beginMember(first);
    if (depth === 2 && this.isInParts) this.beginPart();
    if (isOfPart) this.beginMemberOfPart();
    return this.want('member', (isOfPart && OF_PART.has(this.name)) || (isOfApproval && OF_APPROVAL.has(this.name)));
  }

  end(text: string | undefined): void {
    if (this.wanted === 'name') this.name = text === undefined ? '' : (JSON.parse(text) as string);
    else if (this.name === 'type') this.typed(text);
    else if (text !== undefined) (this.approval ?? this.into).set(this.name, text);
    else if (OUTCOMES.includes(this.name)) this.into.set(this.name, TOO_LONG);
    else this.isTooLong = true;
  }

  private typed(type: string | undefined): void {
    if (type === '"step-start"') while (this.leaveOutLast());
  }

  private beginMember(first: string): boolean {
    this.partEnded();
    this.into = this.members;
    if (this.name === 'parts') [this.parts, this.withOutcome, this.size] = [[], [], 0];
    this.isInParts = this.name === 'parts' && first === '[';
    return this.want('member', OF_ANSWER.has(this.name));
  }

  private beginPart(): void {
    this.partEnded();
    this.into = new Map();
    this.name = '';
  }

  private beginMemberOfPart(): void {
    this.approvalEnded();
    if (this.name === 'approval') this.approval = new Map();
  }

  private approvalEnded(): void {
    if (this.approval !== undefined) this.into.set('approval', jsonObject([...this.approval]));
    this.approval = undefined;
  }

  private partEnded(): void {
    this.approvalEnded();
    const part = this.into;
    if (part !== this.members && part.has('toolCallId')) {
      if (OUTCOMES.some((name) => part.get(name) === TOO_LONG)) leaveOut(part);
      else if (OUTCOMES.some((name) => part.has(name))) this.withOutcome.push(part);
      this.parts.push(part);
      this.size += sizeOf(part);
    }
    this.into = this.members;
    while (this.size + sizeOf(this.members) > this.limit && !this.isTooLong) this.isTooLong = !this.leaveOutLast();
  }

  /** False: there is none. */
  private leaveOutLast(): boolean {
    const part = this.withOutcome.pop();
    if (part === undefined) return false;
    this.size -= sizeOf(part);
    leaveOut(part);
    this.size += sizeOf(part);
    return true;
  }

  private want(what: typeof this.wanted, isWanted: boolean): boolean {
    if (isWanted) this.wanted = what;
    return isWanted && !this.isTooLong;
  }
}

/** Of an outcome. No JSON is empty. */
const TOO_LONG = '';

/** If it is what the call waits for, it is too long; see `LEFT_OUT`. */
function leaveOut(part: Map<string, string>): void {
  for (const name of OUTCOMES) part.delete(name);
  part.set('state', JSON.stringify(LEFT_OUT));
}

function sizeOf(part: ReadonlyMap<string, string>): number {
  return [...part].reduce((size, [name, value]) => size + name.length + value.length, 0);
}

/** An object in JSON, of members in JSON. */
export function jsonObject(members: readonly (readonly [name: string, value: string | undefined])[]): string {
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
}
