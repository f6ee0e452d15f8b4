// What a test file takes of the run's servers. Files share nothing, so they can run side by side.
import { randomBytes } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, inject } from 'vitest';
import { registerSearchAttributes } from '../../config/search-attributes.ts';
import { createDatabase, dropDatabase } from '../../dev/databases.ts';

export { freePort } from '../../dev/ports.ts';

/**
 * A migrated database of its own, dropped after the file. Call it in the file's body or in a beforeAll.
 * @param options.empty without the migrations
 * @returns its URL, which is that of a superuser
 */
export async function freshDatabase(options: { empty?: boolean } = {}): Promise<string> {
  const server = inject('postgresUrl');
  const name = uniqueName('test');
  const url = await createDatabase(server, name, options.empty ? undefined : inject('templateDatabase'));
  afterAll(() => dropDatabase(server, name));
  return url;
}

/** A Temporal namespace and a client in it, closed after the file. */
export type FreshNamespace = { address: string; namespace: string; client: Client };

/** A namespace of its own with Perdure's search attributes registered. Call it in the file's body or in a beforeAll. */
export async function freshNamespace(): Promise<FreshNamespace> {
  const address = inject('temporalAddress');
  const namespace = uniqueName('test');
  const connection = await Connection.connect({ address });
  afterAll(() => connection.close());
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs('1 day'),
  });
  await registerSearchAttributes(connection, namespace);
  return { address, namespace, client: new Client({ connection, namespace }) };
}

function uniqueName(prefix: string): string {
  return `${prefix}_${randomBytes(6).toString('hex')}`;
}
