/** Receives the keys and values of a JSON text in order; depth is the number of enclosing objects and arrays. */
export interface JsonListener {
  /**
   * A key or value begins with the character `first`. Return true to get its text in `end`, or a function that gets it in pieces;
   * there are no events from inside it.
   */
  begin(depth: number, what: 'key' | 'value', first: string): boolean | Take;
  /** A requested key or value is complete; undefined: its text exceeded the limit. Empty if it came in pieces. */
  end(text: string | undefined): void;
}

type Take = (piece: string) => void;

interface Limits {
  /** Maximum nesting. */
  depth: number;
  /** Maximum length of one requested text, in UTF-16 units. */
  text: number;
  /** Maximum number of keys and values: each takes much longer than a character of a text. */
  values: number;
}

/** Invalid JSON, or JSON that is too deep or has too many values; the message completes the sentence "expected …". */
export class JsonError extends Error {}

const SPACE_CODE = 32;
const SPACE = /[ \t\n\r]*/y;
/** Part of a string. The repetition is bounded because an unbounded one can overflow the regular expression stack. */
// oxlint-disable-next-line no-control-regex -- RFC 8259: a string holds no control characters
const RUN = /(?:[^"\\\u0000-\u001f]+|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})){1,1000}/y;
const ESCAPE_LENGTH = 6;
const WORD = /[-+.\w]+/y;
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[Ee][-+]?\d+)?)$/;
const LONGEST_SCALAR = 1_000;
const EXPECTED = 'JSON';
const OPENED_BY: Readonly<Record<string, string>> = { '}': '{', ']': '[' };

/**
 * Validates a JSON text (RFC 8259) that arrives in chunks and is too long to buffer. Memory is bounded: it keeps only
 * the requested texts and the incomplete end of a chunk. Strings are matched by regular expressions, because a
 * tokenizer would take seconds for a transcript of many megabytes instead of milliseconds.
 */
export class JsonScanner {
  private readonly listener: JsonListener;
  private readonly limits: Limits;
  private readonly open: string[] = [];
  private expect: 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'more' = 'value';
  private inString: 'key' | 'value' | undefined;
  private held = '';
  private values = 0;
  private wanted: { depth: number; from: number; text: string; isTooLong: boolean; take: Take | undefined } | undefined;

  constructor(listener: JsonListener, limits: Limits) {
    this.listener = listener;
    this.limits = limits;
  }

  /** Processes the next chunk. @throws {JsonError} */
  push(piece: string): void {
    const text = this.held + piece;
    if (this.wanted) this.wanted.from = 0;
    let at = 0;
    for (let next = this.step(text, at); next > at; next = this.step(text, at)) at = next;
    this.keep(text, at);
    this.held = text.slice(at);
  }

  /** Ends the input. @throws {JsonError} */
  finish(): void {
    this.push(' ');
    if (this.held !== '' || this.inString || this.open.length > 0 || this.expect !== 'more')
      throw new JsonError(EXPECTED);
  }

  /** Processes one token or part of a string. Returns the index of its end, or `at` if more text is needed. */
  private step(text: string, at: number): number {
    if (this.inString) return this.string(text, at);
    const from = text.charCodeAt(at) > SPACE_CODE ? at : endOf(SPACE, text, at);
    const char = text[from];
    if (char === undefined) return from;
    const { expect } = this;
    if (expect === 'colon' && char === ':') return this.punctuation('value', from);
    if (expect === 'more' && char === ',' && this.open.length > 0) {
      return this.punctuation(this.open.at(-1) === '{' ? 'key' : 'value', from);
    }
    const canClose = expect === 'more' || expect === (char === '}' ? 'first key' : 'first value');
    const opened = OPENED_BY[char];
    if (canClose && opened !== undefined && this.open.at(-1) === opened) return this.close(text, from);
    const what = expect === 'key' || expect === 'first key' ? 'key' : 'value';
    if (expect === 'colon' || expect === 'more' || (what === 'key' && char !== '"')) throw new JsonError(EXPECTED);
    return this.begin(what, text, from);
  }

  private punctuation(expect: typeof this.expect, at: number): number {
    this.expect = expect;
    return at + 1;
  }

  private begin(what: 'key' | 'value', text: string, at: number): number {
    const char = text[at] as string;
    const isScalar = !'"{['.includes(char);
    const end = isScalar ? endOfScalar(text, at) : at + 1;
    if (end === undefined) return at;
    this.values += 1;
    if (this.values > this.limits.values) throw new JsonError(`at most ${this.limits.values} keys and values`);
    const wanted = !this.wanted && this.listener.begin(this.open.length, what, char);
    if (wanted !== false) {
      const take = wanted === true ? undefined : wanted;
      this.wanted = { depth: this.open.length, from: at, text: '', isTooLong: false, take };
    }
    if (char === '"') this.inString = what;
    else if (isScalar) this.ended(text, end);
    else this.enter(char);
    return end;
  }

  private enter(bracket: string): void {
    this.open.push(bracket);
    if (this.open.length > this.limits.depth) throw new JsonError(`at most ${this.limits.depth} levels of nesting`);
    this.expect = bracket === '{' ? 'first key' : 'first value';
  }

  private close(text: string, at: number): number {
    this.open.pop();
    this.ended(text, at + 1);
    return at + 1;
  }

  private string(text: string, at: number): number {
    if (text[at] === '"') {
      const what = this.inString;
      this.inString = undefined;
      this.ended(text, at + 1, what);
      return at + 1;
    }
    const end = endOf(RUN, text, at);
    const isCut = at === text.length || (text[at] === '\\' && text.length - at < ESCAPE_LENGTH);
    if (end === at && !isCut) throw new JsonError(EXPECTED);
    return end;
  }

  /** A key or value ends before `at`. */
  private ended(text: string, at: number, what: 'key' | 'value' = 'value'): void {
    this.expect = what === 'key' ? 'colon' : 'more';
    if (this.wanted?.depth !== this.open.length) return;
    this.keep(text, at);
    const { text: wanted, isTooLong } = this.wanted;
    this.wanted = undefined;
    this.listener.end(isTooLong ? undefined : wanted);
  }

  /** Collects requested text before `at`. */
  private keep(text: string, at: number): void {
    const { wanted } = this;
    if (!wanted || wanted.isTooLong) return;
    if (wanted.take) {
      wanted.take(text.slice(wanted.from, at));
    } else {
      wanted.isTooLong = wanted.text.length + at - wanted.from > this.limits.text;
      wanted.text = wanted.isTooLong ? '' : wanted.text + text.slice(wanted.from, at);
    }
    wanted.from = at;
  }
}

/** The end of a number or literal; undefined if it may continue in the next chunk. */
function endOfScalar(text: string, at: number): number | undefined {
  const end = endOf(WORD, text, at);
  const isWhole = end < text.length;
  if (end - at > LONGEST_SCALAR || (isWhole && !SCALAR.test(text.slice(at, end)))) throw new JsonError(EXPECTED);
  return isWhole ? end : undefined;
}

function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
