import { z } from 'zod';
import { searchHit } from '../wire/responses.ts';
import { call, type Db, many } from './db.ts';
import { isoTime } from './results.ts';

/** What marks the beginning and the end of a match in a snippet of `search_messages`. */
const MARKS = { begin: '\u0002', end: '\u0003' };
const MARK = new RegExp(`([${MARKS.begin}${MARKS.end}])`, 'u');

/** A message that matches, with a short text, or about 60 words around the matches. */
export type SearchHit = z.output<typeof searchHit>;

const row = searchHit.omit({ matches: true }).extend({ created_at: isoTime });

/** The `limit` best matches among a user's messages, as web search engines read the query: words, "phrases", or, -not. */
export async function searchMessages(db: Db, userId: string, query: string, limit: number): Promise<SearchHit[]> {
  const rows = await many(db, row, 'SELECT * FROM search_messages($1, $2, $3)', [userId, query, limit]);
  return rows.map((found) => Object.assign(found, unmarked(found.snippet)));
}

/** Indexes about `limit` messages whose turns are over; a long one counts as several. 0: none is left that no other process indexes. */
export function indexMessages(db: Db, limit: number): Promise<number> {
  return call(db, z.number(), 'index_messages', [null, limit]);
}

/** A snippet without its marks, and where they were. Marks that do not follow each other are characters of the text. */
function unmarked(marked: string): Pick<SearchHit, 'snippet' | 'matches'> {
  let snippet = '';
  let start: number | undefined;
  const matches: SearchHit['matches'] = [];
  for (const piece of marked.split(MARK)) {
    if (piece === MARKS.begin) start ??= snippet.length;
    else if (piece !== MARKS.end) snippet += piece;
    else if (start !== undefined) {
      matches.push({ start, end: snippet.length });
      start = undefined;
    }
  }
  return { snippet, matches };
}
