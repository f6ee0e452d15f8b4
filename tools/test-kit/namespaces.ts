import { randomBytes } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { registerSearchAttributes } from '../../config/search-attributes.ts';

/** A Temporal namespace and a client in it. */
export type FreshNamespace = { address: string; namespace: string; client: Client };

/** A new namespace with Perdure's search attributes. The caller closes its client's connection. */
export async function createNamespace(address: string): Promise<FreshNamespace> {
  const namespace = uniqueName('test');
  const client = temporalClient({ connectionOptions: { address }, namespace });
  const { connection } = client;
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs('1 day'),
  });
  await registerSearchAttributes(connection, namespace);
  return { address, namespace, client };
}

/** A unique name. */
export function uniqueName(prefix: string): string {
  return `${prefix}_${randomBytes(6).toString('hex')}`;
}
