/**
 * Postgres' jsonb accepts neither U+0000 nor a lone surrogate. Each is replaced by U+FFFD, one UTF-16 unit for one, so that
 * offsets into a text stay the same.
 */
const REPLACEMENT = '\uFFFD';
export const HIGH_AT_END = /[\uD800-\uDBFF]$/;

/** The text with U+0000 and lone surrogates replaced by U+FFFD; the same length. */
export function cleanText(text: string): string {
  const wellFormed = text.isWellFormed() ? text : text.toWellFormed();
  return wellFormed.includes('\0') ? wellFormed.replaceAll('\0', REPLACEMENT) : wellFormed;
}

/** The text of bytes, without a byte order mark; undefined if they are not UTF-8. `cut`: the last character may be incomplete. */
export function textOfUtf8(bytes: Uint8Array, { cut = false } = {}): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return undefined;
  }
}

/** Cleans a text that comes in pieces. It may hold back the end of a piece until the next one, or until `end`. */
export interface Cleaner {
  push(delta: string): string;
  /** The cleaned text that was held back; call it once, at the end. */
  end(): string;
}

/** Cleans plain text. Holds back a high surrogate at the end of a piece, since the next one may begin with its low one. */
export class TextCleaner implements Cleaner {
  private held = '';

  push(delta: string): string {
    if (delta === '') return '';
    const text = this.held + delta;
    this.held = HIGH_AT_END.test(text) ? text.slice(-1) : '';
    return cleanText(this.held ? text.slice(0, -1) : text);
  }

  end(): string {
    const rest = this.held ? REPLACEMENT : '';
    this.held = '';
    return rest;
  }
}

const HEX = '[0-9a-fA-F]';
const HIGH = `\\\\u[dD][89abAB]${HEX}{2}`;
const LOW = `\\\\u[dD][c-fC-F]${HEX}{2}`;
const LOW_BEGUN = `\\\\(?:u(?:[dD](?:[c-fC-F]${HEX}?)?)?)?`;
/** Group 1: an incomplete escape at the end of the text. Group 2: a surrogate pair. Group 3: any other complete escape. */
const ESCAPES = new RegExp(
  `(${HIGH}(?:${LOW_BEGUN})?$|\\\\(?:u${HEX}{0,3})?$)|(${HIGH}${LOW})|(\\\\u${HEX}{4}|\\\\[^])`,
  'g',
);
/** What every forbidden escape contains. Also in an escaped backslash before `u0000`, which is allowed. */
const MAYBE_FORBIDDEN = /\\u(?:0000|[dD][89a-fA-F])/;
const FORBIDDEN_ESCAPE = /^\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})/;
/** An incomplete escape. */
const BEGUN = new RegExp(`^\\\\(?:u${HEX}{0,3})?$`);
const ESCAPED_REPLACEMENT = '\\ufffd';

/**
 * Cleans the text of a JSON document: plain characters, and escapes that a parser would turn into U+0000 or a lone surrogate.
 * The text keeps its length.
 */
export class JsonTextCleaner implements Cleaner {
  private readonly plain = new TextCleaner();
  private held = '';

  push(delta: string): string {
    return this.escapes(this.plain.push(delta), false);
  }

  end(): string {
    return this.escapes(this.plain.end(), true);
  }

  private escapes(piece: string, last: boolean): string {
    const text = this.held + piece;
    this.held = '';
    if (!MAYBE_FORBIDDEN.test(text)) return last ? text : this.holdBegun(text);
    return text.replace(ESCAPES, (all: string, begun?: string, pair?: string) => {
      if (pair !== undefined) return all;
      if (begun === undefined) return FORBIDDEN_ESCAPE.test(all) ? ESCAPED_REPLACEMENT : all;
      if (!last) {
        this.held = begun;
        return '';
      }
      return FORBIDDEN_ESCAPE.test(begun) ? ESCAPED_REPLACEMENT + begun.slice(ESCAPED_REPLACEMENT.length) : begun;
    });
  }

  /** Holds back an incomplete escape at the end of the text. */
  private holdBegun(text: string): string {
    const at = text.lastIndexOf('\\');
    if (at < 0 || !BEGUN.test(text.slice(at)) || isEscaped(text, at)) return text;
    this.held = text.slice(at);
    return text.slice(0, at);
  }
}

/** Whether an odd number of backslashes precedes the character. */
function isEscaped(text: string, at: number): boolean {
  let before = at;
  while (text[before - 1] === '\\') before -= 1;
  return (at - before) % 2 === 1;
}

/** Cleans the text of a whole JSON document like JsonTextCleaner. */
export function cleanJsonText(json: string): string {
  const cleaner = new JsonTextCleaner();
  return cleaner.push(json) + cleaner.end();
}

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * The value after a round trip through JSON, with every string and key cleaned. Undefined becomes null.
 * @throws {TypeError} for values that JSON cannot represent (cycles, bigint)
 */
export function cleanJson(value: unknown): Json {
  const json = JSON.stringify(value);
  return json === undefined ? null : (JSON.parse(cleanJsonText(json)) as Json);
}

const encoder = new TextEncoder();

/** The length of a text in UTF-8, in bytes. */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** The longest prefix of a text that is at most `bytes` long in UTF-8; no character is cut. */
export function headOf(text: string, bytes: number): string {
  const { read } = encoder.encodeInto(text, new Uint8Array(Math.max(0, bytes)));
  return text.slice(0, read);
}
