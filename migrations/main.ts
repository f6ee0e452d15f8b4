import { Connection } from '@temporalio/client';
import { parseConfig } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { registerSearchAttributes } from '../config/search-attributes.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { migrate } from './migrate.ts';

const config = parseConfig(process.env);
const log = createLogger('migrate', config);
if (config.databaseUrl === undefined) {
  log.fatal('DATABASE_URL is not set: expected a URL such as postgres://user:password@host:5432/database');
  process.exit(1);
}
const applied = await migrate(config.databaseUrl);
log.info({ applied }, applied.length > 0 ? 'the database is migrated' : 'the database is up to date');
const { connectionOptions, namespace } = temporalConnectConfig(config);
const connection = await Connection.connect(connectionOptions);
const registered = await registerSearchAttributes(connection, namespace);
log.info({ namespace, registered }, 'the search attributes are registered');
await connection.close();
