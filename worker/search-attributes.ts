import type { Connection } from '@temporalio/client';
import type { Logger } from 'pino';
import { missingSearchAttributes } from '../config/search-attributes.ts';

/**
 * Ends the process with a clear word where the namespace lacks the search attributes: without them no session could
 * start.
 */
export async function requireSearchAttributes(connection: Connection, namespace: string, log: Logger): Promise<void> {
  const missing = await missingSearchAttributes(connection, namespace);
  if (missing.length === 0) return;
  log.fatal(
    { namespace, missing },
    `the namespace "${namespace}" lacks the search attributes ${missing.join(', ')}: run "npm run migrate"`,
  );
  process.exit(1);
}
