// Answers of Postgres that stay the same until somebody changes the configuration or the server.
import { ConfigError } from './error.ts';

/** SQLSTATE: invalid_password, invalid_authorization_specification, invalid_catalog_name. */
const WRONG_PASSWORD: ReadonlySet<unknown> = new Set(['28P01', '28000']);
const NO_DATABASE = '3D000';
/** What PgBouncer says of a start-up parameter that it does not know. */
const PARAMETER = /^unsupported startup parameter(?: in options)?: (?<name>\S+)/;

/**
 * Does something with Postgres.
 * @param variable the one that holds the URL
 * @throws {ConfigError} naming it, if Postgres refuses the user or has no such database, or a pooler refuses what the URL sets;
 *   else what `work` throws
 */
export async function withPostgres<T>(variable: string, url: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { host, username, pathname } = new URL(url);
    const { code, message = '' } = error as { code?: unknown; message?: string };
    const parameter = PARAMETER.exec(message)?.groups?.['name'];
    if (parameter !== undefined) {
      throw new ConfigError(
        [
          {
            name: variable,
            expected: `a URL without ${parameter}, which the pooler at ${host} refuses: set it for the user instead, with ALTER ROLE`,
          },
        ],
        { cause: error },
      );
    }
    if (WRONG_PASSWORD.has(code)) {
      throw new ConfigError(
        [
          {
            name: variable,
            expected: `a user and password that Postgres accepts: at ${host} it refuses user "${username}"`,
          },
        ],
        { cause: error },
      );
    }
    if (code === NO_DATABASE) {
      const name = decodeURIComponent(pathname.slice(1));
      throw new ConfigError(
        [{ name: variable, expected: `a database that exists: create "${name}" at ${host}, or name another` }],
        { cause: error },
      );
    }
    throw error;
  }
}
