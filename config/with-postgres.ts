// Answers of Postgres and Temporal that stay the same until somebody changes the configuration or the server.
import type { ConnectionOptions } from '@temporalio/client';
import { ConfigError } from './error.ts';

/** SQLSTATE: invalid_password, invalid_authorization_specification, invalid_catalog_name. */
const WRONG_PASSWORD: ReadonlySet<unknown> = new Set(['28P01', '28000']);
const NO_DATABASE = '3D000';
/** What PgBouncer says of a start-up parameter that it does not know. */
const PARAMETER = /^unsupported startup parameter(?: in options)?: (?<name>\S+)/;
/** Codes of gRPC. */
const NOT_FOUND = 5;
const PERMISSION_DENIED = 7;
const UNAUTHENTICATED = 16;

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
      throw refusal(
        variable,
        `a URL without ${parameter}, which the pooler at ${host} refuses: set it for the user instead, with ALTER ROLE`,
        error,
      );
    }
    if (WRONG_PASSWORD.has(code)) {
      throw refusal(
        variable,
        `a user and password that Postgres accepts: at ${host} it refuses user "${username}"`,
        error,
      );
    }
    if (code === NO_DATABASE) {
      const name = decodeURIComponent(pathname.slice(1));
      throw refusal(variable, `a database that exists: create "${name}" at ${host}, or name another`, error);
    }
    throw error;
  }
}

/**
 * Does something with Temporal.
 * @throws {ConfigError} naming the variable, if Temporal refuses the key or has no such namespace; else what `work` throws
 */
export async function withTemporal<T>(
  { address = '', apiKey }: Pick<ConnectionOptions, 'address' | 'apiKey'>,
  namespace: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (code === UNAUTHENTICATED || (code === PERMISSION_DENIED && apiKey === undefined)) {
      const now = apiKey === undefined ? 'it is not set' : 'it refuses this one';
      throw refusal(
        'TEMPORAL_API_KEY',
        `a key, or TEMPORAL_TLS_* a certificate, that ${address} accepts: ${now}`,
        error,
      );
    }
    if (code === PERMISSION_DENIED) {
      throw refusal('TEMPORAL_API_KEY', `a key with access to the namespace "${namespace}" at ${address}`, error);
    }
    if (code === NOT_FOUND) {
      const expected =
        `a namespace that exists: ${address} has no "${namespace}". Create it, such as with ` +
        `"temporal operator namespace create --namespace ${namespace}", or name another`;
      throw refusal('TEMPORAL_NAMESPACE', expected, error);
    }
    throw error;
  }
}

/** The gRPC code of an error of the SDK, or of its cause. */
function codeOf(error: unknown): number | undefined {
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (typeof code === 'number') return code;
  return typeof cause === 'object' && cause !== null ? codeOf(cause) : undefined;
}

function refusal(name: string, expected: string, cause: unknown): ConfigError {
  return Object.assign(new ConfigError([{ name, expected }]), { cause });
}
