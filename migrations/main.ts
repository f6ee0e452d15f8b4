#!/usr/bin/env node
// Brings database and Temporal namespace to where this version needs them.
import { Connection } from '@temporalio/client';
import { parseConfig, requireDatabase } from '../config/config.ts';
import { untilPostgresIsDirect } from '../config/direct-postgres.ts';
import { createLogger } from '../config/log.ts';
import { runProcess } from '../config/process.ts';
import { registerSearchAttributes } from '../config/search-attributes.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { untilReachable } from '../config/until-reachable.ts';
import { withTemporal } from '../config/with-temporal.ts';
import { migrate } from './migrate.ts';

const PROGRAM = {
  name: 'migrate',
  does: 'brings the database and the Temporal namespace to where this version needs them',
  options: { 'replace-functions': { type: 'boolean', default: false } },
  help: ["--replace-functions   apply this version's SQL functions also where another version replaced them"],
} as const;

async function main(values: { 'replace-functions': boolean }): Promise<void> {
  const config = requireDatabase(parseConfig(process.env));
  const log = createLogger('migrate', config);
  await untilPostgresIsDirect(log, config);
  const applied = await migrate(config.directDatabaseUrl, { replace: values['replace-functions'] });
  log.info({ applied }, applied.length > 0 ? 'the database is migrated' : 'the database is up to date');
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  const asTemporal = <T>(work: () => Promise<T>) => withTemporal(connectionOptions, namespace, work);
  const connect = () => asTemporal(() => Connection.connect(connectionOptions));
  const connection = await untilReachable(log, 'Temporal', connectionOptions.address, connect);
  const registered = await asTemporal(() => registerSearchAttributes(connection, namespace));
  log.info({ namespace, registered }, 'the search attributes are registered');
}

await runProcess(PROGRAM, main);
