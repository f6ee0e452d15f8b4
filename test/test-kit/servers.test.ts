import pg from 'pg';
import { expect, it } from 'vitest';
import { missingSearchAttributes } from '../../config/search-attributes.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';

async function tablesOf(url: string): Promise<string[]> {
  const db = new pg.Client({ connectionString: url });
  await db.connect();
  try {
    const { rows } = await db.query<{ tablename: string }>(
      "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    );
    return rows.map((row) => row.tablename);
  } finally {
    await db.end();
  }
}

it('a fresh database is migrated, an empty one is empty', async () => {
  expect(await tablesOf(await freshDatabase())).toContain('sessions');
  expect(await tablesOf(await freshDatabase({ empty: true }))).toEqual([]);
});

it('a fresh namespace accepts workflows with our search attributes at once', async () => {
  const { client, namespace } = await freshNamespace();
  expect(await missingSearchAttributes(client.connection, namespace)).toEqual([]);
  await client.workflow.start('nothing', {
    taskQueue: 'nobody',
    workflowId: 'one',
    searchAttributes: { PerdureUser: ['ada'] },
  });
  const { searchAttributes } = await client.workflow.getHandle('one').describe();
  expect(searchAttributes).toEqual({ PerdureUser: ['ada'] });
});
