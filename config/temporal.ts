import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { Config } from './config.ts';
import { ConfigError } from './error.ts';

/** What `Connection.connect` and `NativeConnection.connect` take, and the namespace to use with it. */
export type TemporalConnectConfig = {
  connectionOptions: ReturnType<typeof loadClientConnectConfig>['connectionOptions'] & { address: string };
  namespace: string;
};

const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';

/**
 * How to reach Temporal, by Temporal's own rules: TEMPORAL_* variables over its configuration file, which is read only
 * when it is named (TEMPORAL_CONFIG_FILE) or a profile is (TEMPORAL_PROFILE).
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
