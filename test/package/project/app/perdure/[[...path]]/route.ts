// A host inside Next. Its worker is another process, with the same agents and providers.
import { createModels } from 'perdure';
import { createClient, temporalClient } from 'perdure/client';
import { PerdureError } from 'perdure/domain';
import { catalogOf, createHost, createLogger, hostMetrics } from 'perdure/host';
import agents from '../../../agents';
import providers from '../../../providers';

const env = process.env as Record<string, string>;
const client = createClient({
  database: env['DATABASE_URL'] ?? '',
  temporal: temporalClient({
    connectionOptions: { address: env['TEMPORAL_ADDRESS'] ?? '' },
    namespace: env['TEMPORAL_NAMESPACE'] ?? '',
  }),
  catalog: catalogOf({ agents, models: createModels({ providers, defaultModel: 'acme/small' }) }),
});
const { fetch } = createHost({
  client,
  identify: async (request) => {
    const user = request.headers.get('x-user');
    if (user === null) throw new PerdureError('Unauthorized', 'expected a header x-user');
    return { user };
  },
  log: createLogger('host', { logLevel: 'info' }),
  metrics: hostMetrics(),
  maxBodyBytes: 1024 ** 2,
  basePath: '/perdure/',
});

export { fetch as DELETE, fetch as GET, fetch as POST };
export const dynamic = 'force-dynamic';
