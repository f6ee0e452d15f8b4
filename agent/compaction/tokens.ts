import { setImmediate as othersTurn } from 'node:timers/promises';
import type { UIMessage } from 'ai';

// Tokens of what a model gets, counted by OpenAI's newest published encoding. Other providers' encodings differ by up to a
// quarter, so a provider's own counts are used as far as there are any (activities/window/window.ts).

type CountTokens = (text: string) => number;

/** Loaded at first use: it needs 30 MB, and a worker whose conversations are short never counts. */
let loading: Promise<CountTokens> | undefined;

async function load(): Promise<CountTokens> {
  const { countTokens: count } = await import('gpt-tokenizer/encoding/o200k_base');
  // What looks like a control token is text here, too.
  const asText = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() };
  return (text) => count(text, asText);
}

/** The encoder needs time quadratic in the length of a word, so longer texts are cut; a cut adds at most one token. */
const MAX_PIECE = 512;
/** Pieces that are counted before everything else in the process gets a turn: less than 5 ms of work. */
const PIECES_PER_TURN = 32;
/** Counted so far, of all texts: thousands of short ones take as long as a long one. */
let pieces = 0;

/** Counts the tokens of a text, no further than it takes to know that there are at least `most`. */
export async function countTokens(text: string, most = Infinity): Promise<number> {
  const count = await (loading ??= load());
  let tokens = 0;
  for (let at = 0; at < text.length && tokens < most;) {
    const end = endOfPiece(text, at);
    tokens += count(text.slice(at, end));
    at = end;
    pieces += 1;
    if (pieces % PIECES_PER_TURN === 0) await othersTurn();
  }
  return tokens;
}

/** The end of a piece that begins at `at`: before the last white space that fits, because words begin with it. */
function endOfPiece(text: string, at: number): number {
  const end = at + MAX_PIECE;
  if (end >= text.length) return text.length;
  for (let each = end; each > at + MAX_PIECE / 2; each -= 1) if (/\s/.test(text[each] ?? '')) return each;
  const isSplitPair = /[\uD800-\uDBFF]/.test(text[end - 1] ?? '');
  return isSplitPair ? end - 1 : end;
}

/** What a message takes besides its parts: role and separators. */
const PER_MESSAGE = 4;
/** Providers count an image by its size in pixels: this is the most that one of a megapixel takes. */
const PER_IMAGE = 1_600;
/** Of a PDF or another file: providers take 1,500 to 3,000 for a page, which has about 50 kB. */
const PER_PAGE = 2_000;
const BYTES_PER_PAGE = 50_000;

interface Measured {
  texts: string[];
  /** Tokens of what is no text. */
  fixed: number;
}

type Part = UIMessage['parts'][number];

/** The most tokens that messages can take, without counting: a token has at least one byte. */
export function mostTokens(messages: readonly { parts: readonly Part[] }[]): number {
  return messages.reduce((sum, message) => {
    const { texts, fixed } = measured(message.parts);
    return texts.reduce((most, text) => most + Buffer.byteLength(text), sum + fixed + PER_MESSAGE);
  }, 0);
}

/** Counts the tokens of messages as the model sees them (`modelView`), no further part once there are at least `most`. */
export async function messageTokens(messages: readonly { parts: readonly Part[] }[], most = Infinity): Promise<number> {
  let tokens = 0;
  for (const { parts } of messages) {
    tokens += PER_MESSAGE;
    for (const part of parts) {
      if (tokens >= most) return tokens;
      tokens += await partTokens(part);
    }
  }
  return tokens;
}

/** Counts the tokens of the outcome of a tool call. */
export const outcomeTokens = countedOnce((part) =>
  countTokens(outcomeText(part as { output?: unknown; errorText?: unknown })),
);

const partTokens = countedOnce(async (part) => {
  const { texts, fixed } = measuredPart(part);
  let tokens = fixed;
  if ('toolCallId' in part) {
    // The outcome is the last of the texts.
    texts.pop();
    tokens += await outcomeTokens(part);
  }
  for (const text of texts) tokens += await countTokens(text);
  return tokens;
});

/** Keeps the count of a part for as long as the part lives: a view of a conversation does not change. */
function countedOnce(count: (part: Part) => Promise<number>): (part: Part) => Promise<number> {
  const counts = new WeakMap<Part, Promise<number>>();
  return (part) => {
    const known = counts.get(part) ?? count(part);
    counts.set(part, known);
    return known;
  };
}

function measured(parts: readonly Part[]): Measured {
  const all = parts.map(measuredPart);
  return { texts: all.flatMap(({ texts }) => texts), fixed: all.reduce((sum, { fixed }) => sum + fixed, 0) };
}

function measuredPart(part: Part): Measured {
  if (part.type === 'text' || part.type === 'reasoning') return { texts: [part.text], fixed: 0 };
  if (part.type === 'step-start') return { texts: [], fixed: 0 };
  if (part.type === 'file') return measuredFile(part);
  const { input, output, errorText, ...call } = part as { type: string; [field: string]: unknown };
  if (!('toolCallId' in call)) return { texts: [json(part)], fixed: 0 };
  const name = typeof call['toolName'] === 'string' ? call['toolName'] : call.type;
  return { texts: [name, json(input), outcomeText({ output, errorText })], fixed: PER_MESSAGE };
}

/** The outcome of a tool call as the model reads it. */
export function outcomeText({ output, errorText }: { output?: unknown; errorText?: unknown }): string {
  if (typeof errorText === 'string') return errorText;
  return typeof output === 'string' ? output : json(output);
}

function measuredFile({ mediaType, url }: { mediaType: string; url: string }): Measured {
  if (mediaType.startsWith('image/')) return { texts: [], fixed: PER_IMAGE };
  const [, data = ''] = url.startsWith('data:') ? url.split(',', 2) : [];
  if (mediaType.startsWith('text/')) return { texts: [Buffer.from(data, 'base64').toString('utf8')], fixed: 0 };
  return { texts: [], fixed: PER_PAGE * Math.max(1, Math.ceil((data.length * 3) / 4 / BYTES_PER_PAGE)) };
}

function json(value: unknown): string {
  return value === undefined ? '' : JSON.stringify(value);
}
