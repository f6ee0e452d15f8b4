import { Client, Connection } from '@temporalio/client';
import { expect, it } from 'vitest';
import { createMemoryBus } from '../../bus/memory.ts';
import { newId } from '../../domain/ids.ts';
import { createPool } from '../../store/db.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { createClient } from '../../client/client.ts';

it('R2 a stream that is opened while Postgres does not answer begins when it does', async () => {
  await using stops = new AsyncDisposableStack();
  const db = createPool(await freshDatabase());
  stops.defer(() => db.end());
  // Never asked for anything.
  const temporal = new Client({ connection: Connection.lazy() });
  let failures = 0;
  const client = createClient({ database: db, bus: createMemoryBus(), temporal, log: { warn: () => void failures++ } });
  stops.defer(() => client.end());
  const session = newId('ses');
  await db.query(`SELECT open_session($1, 'ada', 'site-builder', NULL, NULL, '{}', NULL)`, [session]);
  await db.query('ALTER TABLE sessions RENAME TO sessions_away');
  const events = client.events('ada', session);
  const first = events.next();
  await eventually(() => expect(failures).toBeGreaterThan(0));
  await db.query('ALTER TABLE sessions_away RENAME TO sessions');
  expect(await first).toMatchObject({ done: false, value: { event: 'status' } });
  await events.return(undefined);
  await expect(client.events('eve', session).next()).rejects.toMatchObject({ code: 'SessionNotFound' });
});
