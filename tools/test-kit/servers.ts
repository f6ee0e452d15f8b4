// A test file's database and namespace on the run's servers. Files share nothing, so they can run in parallel.
import { inject } from 'vitest';
import { createDatabase, dropDatabase } from '../../dev/databases.ts';
import { afterFile } from './after-file.ts';
import { keepDatabase } from './failed-file.ts';
import { createNamespace, type FreshNamespace, uniqueName } from './namespaces.ts';

export { freePort } from '../../dev/ports.ts';

/**
 * A migrated database, dropped after the file unless that has failed. Call it in the file's body or in a beforeAll.
 * @param options.empty without the migrations
 * @returns its URL, as a superuser
 */
export async function freshDatabase(options: { empty?: boolean } = {}): Promise<string> {
  const server = inject('postgresUrl');
  const name = uniqueName('test');
  const url = await createDatabase(server, name, options.empty ? undefined : inject('templateDatabase'));
  afterFile((kept) => (kept === undefined ? dropDatabase(server, name) : keepDatabase(kept, name)));
  return url;
}

/** A new namespace with Perdure's search attributes. Call it in the file's body or in a beforeAll. */
export async function freshNamespace(): Promise<FreshNamespace> {
  const created = await createNamespace(inject('temporalAddress'));
  afterFile(() => created.client.connection.close());
  return created;
}
