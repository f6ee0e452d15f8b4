#!/usr/bin/env node
// Brings database and Temporal namespace to where this version needs them.
import { parseArgs } from 'node:util';
import { parseConfig, requireDatabase } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { runProcess } from '../config/process.ts';
import { registerSearchAttributesAt } from '../config/search-attributes.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { migrate } from './migrate.ts';

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { 'replace-functions': { type: 'boolean', default: false } } });
  const config = requireDatabase(parseConfig(process.env));
  const log = createLogger('migrate', config);
  const applied = await migrate(config.directDatabaseUrl, { replace: values['replace-functions'] });
  log.info({ applied }, applied.length > 0 ? 'the database is migrated' : 'the database is up to date');
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  const registered = await registerSearchAttributesAt(connectionOptions, namespace);
  log.info({ namespace, registered }, 'the search attributes are registered');
}

await runProcess('migrate', main);
