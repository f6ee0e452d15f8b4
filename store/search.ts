import { z } from 'zod';
import { searchHit } from '../wire/responses.ts';
import { call, type Db, many } from './db.ts';
import { isoTime } from './results.ts';
import { type Match, snippetOf } from './snippet.ts';

/** A message that matches, with its text if it is short, or else with the parts around the matches. */
export type SearchHit = z.output<typeof searchHit>;

const row = searchHit
  .omit({ snippet: true, matches: true })
  .extend({ created_at: isoTime, text: z.string(), matches: z.custom<Match[]>() });

/** The `limit` best matches among a user's messages, as web search engines read the query: words, "phrases", or, -not. */
export async function searchMessages(db: Db, userId: string, query: string, limit: number): Promise<SearchHit[]> {
  const rows = await many(db, row, 'SELECT * FROM find_messages($1, $2, $3)', [userId, query, limit]);
  return rows.map(({ text, matches, ...found }) => Object.assign(found, snippetOf(text, matches)));
}

/** Indexes about `limit` messages whose turns are over; a long one counts as several. 0: none is left that no other process indexes. */
export function indexMessages(db: Db, limit: number): Promise<number> {
  return call(db, z.number(), 'index_messages', [null, limit]);
}

/**
 * Messages are indexed in a language from now on, and those that were indexed in another one again.
 * @param language a text search configuration of Postgres
 * @returns null, or if Postgres does not have it, the names of those that it has; then nothing is changed
 */
export function applySearchLanguage(db: Db, language: string): Promise<string[] | null> {
  return call(db, z.array(z.string()).nullable(), 'use_search_language', [language]);
}
