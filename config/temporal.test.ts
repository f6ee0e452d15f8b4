import { expect, it } from 'vitest';
import { parseConfig } from './config.ts';
import { temporalConnectConfig } from './temporal.ts';

it('H1 the Temporal connection follows the TEMPORAL_* variables of envconfig', () => {
  const config = parseConfig({
    TEMPORAL_ADDRESS: 'eu.example:7233',
    TEMPORAL_NAMESPACE: 'prod',
    TEMPORAL_API_KEY: 'key',
  });
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  expect(namespace).toBe('prod');
  expect(connectionOptions).toMatchObject({ address: 'eu.example:7233', apiKey: 'key' });
});

it('H1 Temporal defaults to a local server and the default namespace', () => {
  const { connectionOptions, namespace } = temporalConnectConfig(parseConfig({}));
  expect({ address: connectionOptions.address, namespace }).toEqual({
    address: 'localhost:7233',
    namespace: 'default',
  });
});
