import { z } from 'zod';
import { call, type Db, many } from './db.ts';

/** What marks the beginning and the end of a match in a snippet of `search_messages`. */
const MARKS = { begin: '\u0002', end: '\u0003' };
const MARK = new RegExp(`([${MARKS.begin}${MARKS.end}])`, 'u');

/** A message that matches, with a part of its text. */
export interface SearchHit {
  session_id: string;
  message_id: string;
  role: 'user' | 'assistant' | 'system';
  /** It is not part of the conversation: a rewind, edit, compaction or cancel has hidden it. */
  hidden: boolean;
  /** ISO 8601. */
  created_at: string;
  /** A short text, or about 60 words around the matches. */
  snippet: string;
  /** Where the matching words are in `snippet`, in UTF-16 units; `end` is exclusive. */
  matches: { start: number; end: number }[];
}

const row = z.object({
  session_id: z.string(),
  message_id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  hidden: z.boolean(),
  created_at: z.date(),
  snippet: z.string(),
});

/** The `limit` best matches among a user's messages, as web search engines read the query: words, "phrases", or, -not. */
export async function searchMessages(db: Db, userId: string, query: string, limit: number): Promise<SearchHit[]> {
  const rows = await many(db, row, 'SELECT * FROM search_messages($1, $2, $3)', [userId, query, limit]);
  return rows.map(hitOf);
}

function hitOf({ created_at, snippet, ...found }: z.output<typeof row>): SearchHit {
  return { ...found, created_at: created_at.toISOString(), ...unmarked(snippet) };
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
