import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { Config } from './config.ts';
import { ConfigError } from './error.ts';

/** Options for `Connection.connect` and `NativeConnection.connect`, and the namespace. */
export type TemporalConnectConfig = {
  connectionOptions: ReturnType<typeof loadClientConnectConfig>['connectionOptions'] & { address: string };
  namespace: string;
};

const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';

/**
 * Reads Temporal's own configuration: TEMPORAL_* variables override its configuration file, which is read only if
 * TEMPORAL_CONFIG_FILE or TEMPORAL_PROFILE is set.
 * @throws {ConfigError} when envconfig refuses a value
 */
export function temporalConnectConfig(config: Config): TemporalConnectConfig {
  const env = config.temporalEnv;
  try {
    const loaded = loadClientConnectConfig({
      overrideEnvVars: env,
      disableFile: env['TEMPORAL_CONFIG_FILE'] === undefined && env['TEMPORAL_PROFILE'] === undefined,
    });
    return {
      connectionOptions: { ...loaded.connectionOptions, address: loaded.connectionOptions.address ?? DEFAULT_ADDRESS },
      namespace: loaded.namespace ?? DEFAULT_NAMESPACE,
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unreadable';
    throw new ConfigError([{ name: 'TEMPORAL_*', expected: `values that Temporal's envconfig accepts (${reason})` }]);
  }
}
