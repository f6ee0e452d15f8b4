// Answers of Temporal that stay the same until somebody changes the configuration or the server.
import type { ConnectionOptions } from '@temporalio/client';
import { ConfigError } from './error.ts';

/** Codes of gRPC. */
const NOT_FOUND = 5;
const PERMISSION_DENIED = 7;
const UNAUTHENTICATED = 16;

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
      throw new ConfigError(
        [
          {
            name: 'TEMPORAL_API_KEY',
            expected: `a key, or TEMPORAL_TLS_* a certificate, that ${address} accepts: ${now}`,
          },
        ],
        { cause: error },
      );
    }
    if (code === PERMISSION_DENIED) {
      throw new ConfigError(
        [{ name: 'TEMPORAL_API_KEY', expected: `a key with access to the namespace "${namespace}" at ${address}` }],
        { cause: error },
      );
    }
    if (code === NOT_FOUND) {
      const expected =
        `a namespace that exists: ${address} has no "${namespace}". Create it, such as with ` +
        `"temporal operator namespace create --namespace ${namespace}", or name another`;
      throw new ConfigError([{ name: 'TEMPORAL_NAMESPACE', expected: expected }], { cause: error });
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
