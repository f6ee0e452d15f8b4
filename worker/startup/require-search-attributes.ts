import type { Connection } from '@temporalio/client';
import { ConfigError } from '../../config/error.ts';
import { missingSearchAttributes } from '../../config/search-attributes.ts';

/**
 * Checks that the namespace has the search attributes: without them no session can start.
 * @throws {ConfigError} naming those that are missing and the command that registers them
 */
export async function requireSearchAttributes(connection: Connection, namespace: string): Promise<void> {
  const missing = await missingSearchAttributes(connection, namespace);
  if (missing.length === 0) return;
  const expected = `a namespace with the search attributes ${missing.join(', ')} ("${namespace}" lacks them): run "perdure migrate"`;
  throw new ConfigError([{ name: 'TEMPORAL_NAMESPACE', expected }]);
}
