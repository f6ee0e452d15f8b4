import { ConfigError } from '../../config/error.ts';
import type { Db } from '../../store/db.ts';
import { applySearchLanguage } from '../../store/search.ts';

/**
 * Makes a text search configuration that of the search, for all workers and hosts.
 * @throws {ConfigError} if Postgres does not have it
 */
export async function requireSearchLanguage(db: Db, language: string): Promise<void> {
  const known = await applySearchLanguage(db, language);
  if (known === null) return;
  const expected = `a text search configuration of this Postgres: ${known.join(', ')}`;
  throw new ConfigError([{ name: 'PERDURE_SEARCH_LANGUAGE', expected }]);
}
