/** Where the scanner stands. A stack of these says what is open; `done` lies below the value of the document. */
type Place =
  | 'root'
  | 'done'
  | 'object-start'
  | 'object-key'
  | 'after-key'
  | 'before-value'
  | 'after-member'
  | 'member-comma'
  | 'array-start'
  | 'after-element'
  | 'element-comma'
  | 'string'
  | 'escape'
  | 'unicode'
  | 'literal'
  | 'number';

const LITERALS = ['true', 'false', 'null'];
const OBJECT_PLACES: ReadonlySet<Place> = new Set([
  'object-start',
  'object-key',
  'after-key',
  'before-value',
  'after-member',
  'member-comma',
]);
const ARRAY_PLACES: ReadonlySet<Place> = new Set(['array-start', 'after-element', 'element-comma']);

/**
 * The value of a JSON text that is cut off somewhere: what is open is closed, what has only begun (a key without its
 * value, a comma) is left out. Undefined where nothing can be made of it, and for keys that would reach a prototype.
 * Gives what the AI SDK's own `parsePartialJson` gives, so that a stored part equals the one its readers have built;
 * the SDK's is asynchronous, and not within reach of these rules.
 */
export function parsePartialJson(text: string): unknown {
  return parse(text) ?? parse(repaired(text));
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return reachesPrototype(value) ? undefined : value;
  } catch {
    return undefined;
  }
}

function reachesPrototype(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Object.hasOwn(value, '__proto__')) return true;
  const made = Object.getOwnPropertyDescriptor(value, 'constructor')?.value as unknown;
  if (typeof made === 'object' && made !== null && Object.hasOwn(made, 'prototype')) return true;
  return Object.values(value).some(reachesPrototype);
}

/** The longest beginning that can be completed, completed. */
function repaired(text: string): string {
  const scan = new Scan(text);
  for (let at = 0; at < text.length; at++) scan.read(text.charAt(at), at);
  return scan.completed();
}

/** Reads a text character by character. Owns the stack of what is open and `kept`, the end of what can stay. */
class Scan {
  private readonly text: string;
  private readonly stack: Place[] = ['root'];
  private kept = 0;
  private literalStart = 0;
  private hexDigits = 0;

  constructor(text: string) {
    this.text = text;
  }

  read(char: string, at: number): void {
    switch (this.stack.at(-1)) {
      case 'root':
        return this.valueStart(char, at, 'done');
      case 'before-value':
        return this.valueStart(char, at, 'after-member');
      case 'element-comma':
        return this.valueStart(char, at, 'after-element');
      case 'array-start':
        return char === ']' ? this.close(at) : this.valueStart(char, at, 'after-element');
      case 'object-start':
        if (char === '}') return this.close(at);
        return char === '"' ? this.swap('object-key') : undefined;
      case 'member-comma':
        return char === '"' ? this.swap('object-key') : undefined;
      case 'object-key':
        return char === '"' ? this.swap('after-key') : undefined;
      case 'after-key':
        return char === ':' ? this.swap('before-value') : undefined;
      case 'after-member':
        return this.afterMember(char, at);
      case 'after-element':
        if (char !== ',' && char !== ']') this.keep(at);
        return this.afterElement(char, at);
      case 'literal':
        return this.literal(char, at);
      case 'number':
        return this.number(char, at);
      default:
        return this.inString(char, at);
    }
  }

  completed(): string {
    let text = this.text.slice(0, this.kept);
    for (const place of this.stack.toReversed()) {
      if (place === 'string') text += '"';
      else if (OBJECT_PLACES.has(place)) text += '}';
      else if (ARRAY_PLACES.has(place)) text += ']';
      else if (place === 'literal') text += this.restOfLiteral();
    }
    return text;
  }

  private keep(at: number): void {
    this.kept = at + 1;
  }

  private swap(place: Place): void {
    this.stack[this.stack.length - 1] = place;
  }

  private close(at: number): void {
    this.keep(at);
    this.stack.pop();
  }

  private valueStart(char: string, at: number, after: Place): void {
    const place = placeOfValue(char);
    if (!place) return;
    // A minus alone is no number yet.
    if (char !== '-') this.keep(at);
    if (place === 'literal') this.literalStart = at;
    this.swap(after);
    this.stack.push(place);
  }

  private afterMember(char: string, at: number): void {
    if (char === ',') this.swap('member-comma');
    else if (char === '}') this.close(at);
  }

  private afterElement(char: string, at: number): void {
    if (char === ',') this.swap('element-comma');
    else if (char === ']') this.close(at);
  }

  private afterValue(char: string, at: number): void {
    const place = this.stack.at(-1);
    if (place === 'after-member') this.afterMember(char, at);
    else if (place === 'after-element') this.afterElement(char, at);
  }

  private inString(char: string, at: number): void {
    const place = this.stack.at(-1);
    if (place === 'escape') {
      this.stack.pop();
      this.hexDigits = 0;
      if (char === 'u') this.stack.push('unicode');
      else this.keep(at);
    } else if (place === 'unicode') {
      if (/[0-9a-fA-F]/.test(char) && ++this.hexDigits === 4) this.close(at);
    } else if (place === 'string') {
      if (char === '\\') this.stack.push('escape');
      else if (char === '"') this.close(at);
      else this.keep(at);
    }
  }

  private literal(char: string, at: number): void {
    const begun = this.text.slice(this.literalStart, at + 1);
    if (LITERALS.some((literal) => literal.startsWith(begun))) return this.keep(at);
    this.stack.pop();
    this.afterValue(char, at);
  }

  private restOfLiteral(): string {
    const begun = this.text.slice(this.literalStart);
    return LITERALS.find((literal) => literal.startsWith(begun))?.slice(begun.length) ?? '';
  }

  private number(char: string, at: number): void {
    if (/[0-9]/.test(char)) return this.keep(at);
    if (/[eE.-]/.test(char)) return;
    this.stack.pop();
    const place = this.stack.at(-1);
    if (char === ',' || (char === '}' && place === 'after-member') || (char === ']' && place === 'after-element')) {
      this.afterValue(char, at);
    }
  }
}

function placeOfValue(char: string): Place | undefined {
  if (char === '"') return 'string';
  if (char === '{') return 'object-start';
  if (char === '[') return 'array-start';
  if (char === 't' || char === 'f' || char === 'n') return 'literal';
  return char === '-' || (char >= '0' && char <= '9') ? 'number' : undefined;
}
