/** Where something that was searched for is in a text, in characters: start, end, and its number in the query. */
export type Match = [start: number, end: number, number: number];

/** The part of a text between two characters. */
type Part = [from: number, to: number];

/** A text that is not longer is shown as a whole. */
const SHORT = 300;
/** Of a longer one, at most two parts of about this many characters, each from a little before its first match. */
const LENGTH = 200;
const BEFORE = 60;
/** A part is not cut within a word, unless the word is longer. */
const WORD = 20;

interface Snippet {
  snippet: string;
  /** In units of UTF-16; what overlaps or touches is one. */
  matches: { start: number; end: number }[];
}

/** A short text, or the parts of a long one that have the most of the query, and where the matches are. `found` is in order. */
export function snippetOf(text: string, found: readonly Match[]): Snippet {
  const characters = Array.from(text);
  const matches: Snippet['matches'] = [];
  let snippet = '';
  for (const [from, to] of partsOf(characters, found)) {
    if (snippet !== '') snippet += ' … ';
    const inUnits = (at: number) => snippet.length + characters.slice(from, at).join('').length;
    for (const [first, last] of found) {
      if (first < from || last > to) continue;
      const [start, end] = [inUnits(first), inUnits(last)];
      const before = matches.at(-1);
      if (before && start <= before.end) before.end = Math.max(before.end, end);
      else matches.push({ start, end });
    }
    snippet += characters.slice(from, to).join('');
  }
  return { snippet, matches };
}

function partsOf(characters: readonly string[], found: readonly Match[]): Part[] {
  if (characters.length <= SHORT) return [[0, characters.length]];
  const first = partAt(characters, richest(found));
  const shown = new Set(found.filter((match) => isIn(match, first)).map(([, , number]) => number));
  const others = found.filter((match) => !isIn(match, first));
  if (others.length === 0) return [first];
  const unseen = others.filter(([, , number]) => !shown.has(number));
  const second = partAt(characters, richest(unseen.length > 0 ? unseen : others));
  const [one, other] = first[0] < second[0] ? [first, second] : [second, first];
  return one[1] < other[0] ? [one, other] : [[one[0], Math.max(one[1], other[1])]];
}

function isIn([start, end]: Match, [from, to]: Part): boolean {
  return from <= start && end <= to;
}

/** The first of the matches that are followed by the most different ones in what is shown. */
function richest(found: readonly Match[]): Match {
  let best: Match = found[0] ?? [0, 0, 0];
  let most = 0;
  // How often each is in what is shown from a match on: `found` up to, but without, `to`.
  const counts = new Map<number, number>();
  const count = (number: number, by: 1 | -1) => {
    const times = (counts.get(number) ?? 0) + by;
    if (times > 0) counts.set(number, times);
    else counts.delete(number);
  };
  let to = 0;
  for (const [at, match] of found.entries()) {
    to = Math.max(to, at);
    for (let next = found[to]; next && next[1] <= match[0] + LENGTH - BEFORE; next = found[to]) {
      count(next[2], 1);
      to += 1;
    }
    if (counts.size > most) {
      most = counts.size;
      best = match;
    }
    if (to > at) count(match[2], -1);
  }
  return best;
}

function partAt(characters: readonly string[], [start, end]: Match): Part {
  const isSpace = (at: number) => /\s/.test(characters[at] ?? ' ');
  let from = Math.max(0, start - BEFORE);
  const to = Math.max(end, Math.min(characters.length, from + LENGTH));
  for (let at = from; at > 0 && at < Math.min(start, from + WORD); at += 1) {
    if (isSpace(at)) {
      from = at + 1;
      break;
    }
  }
  for (let at = to; at > Math.max(end, to - WORD); at -= 1) if (isSpace(at)) return [from, at];
  return [from, to];
}
