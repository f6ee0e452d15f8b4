import { Connection } from '@temporalio/client';
import { ConfigError } from '../config/error.ts';
import { grpcInterceptors } from '../config/grpc-interceptors.ts';
import type { TemporalConnectConfig } from '../config/temporal.ts';
import { withTemporal } from '../config/with-temporal.ts';

const CONNECT_MS = 5_000;

/**
 * Connects a command to the Temporal server that the environment names, without waiting for one that is absent.
 * @throws {ConfigError | Error} naming the variable that the server refuses, or the server that cannot be reached
 */
export async function connectOnce({ connectionOptions, namespace }: TemporalConnectConfig): Promise<Connection> {
  const options = { ...connectionOptions, connectTimeout: CONNECT_MS, interceptors: grpcInterceptors() };
  try {
    return await withTemporal(connectionOptions, namespace, () => Connection.connect(options));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const message = `Temporal cannot be reached at ${connectionOptions.address} (TEMPORAL_ADDRESS)`;
    throw new Error(message, { cause: error });
  }
}
