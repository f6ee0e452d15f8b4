import { Client, Connection } from '@temporalio/client';
import { expect, it } from 'vitest';
import { createMemoryBus } from '../../bus/memory.ts';
import { newId } from '../../domain/ids.ts';
import { createPool } from '../../store/db.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { createClient } from '../../client/client.ts';

it('R2 a stream that is opened while Postgres does not respond starts once it does', async () => {
  await using stops = new AsyncDisposableStack();
  const db = createPool(await freshDatabase());
  stops.defer(() => db.end());
  // The Temporal client is never used.
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

it('H5 refuses what HTTP refuses, with the same message, and stores nothing', async () => {
  await using stops = new AsyncDisposableStack();
  const db = createPool(await freshDatabase());
  stops.defer(() => db.end());
  const client = createClient({
    database: db,
    bus: createMemoryBus(),
    temporal: new Client({ connection: Connection.lazy() }),
  });
  stops.defer(() => client.end());
  const { session } = await client.openSession('ada', { agent: 'site-builder' });
  const file = { type: 'file' as const, mediaType: 'image/png', url: 'https://example.org/a.png' };
  const refused: [message: object, words: string][] = [
    [{ parts: [file] }, 'parts[0].url: expected a data: URL in base64'],
    [{ text: 'x', variant: 'high' }, 'variant: expected nothing (not supported yet)'],
    [{ id: 'no spaces', text: 'x' }, 'id: expected an id'],
    [{ text: 'x', model: 'gpt' }, 'model: expected a model such as'],
  ];
  for (const [message, words] of refused) {
    const sent = client.submit('ada', session.session_id, message);
    await expect(sent).rejects.toMatchObject({ code: 'BadRequest', message: expect.stringContaining(words) });
  }
  await expect(client.openSession('ada', { agent: 'a', headless: true } as object)).rejects.toThrow(
    'headless: expected',
  );
  expect((await client.reads.messages('ada', session.session_id)).items).toEqual([]);
});

it('H5 refuses options that would have no effect', async () => {
  const temporal = new Client({ connection: Connection.lazy() });
  const db = createPool('postgres://127.0.0.1:1/none');
  const bus = createMemoryBus();
  for (const name of ['commandConnections', 'readConnections']) {
    expect(() => createClient({ database: db, bus, temporal, [name]: 3 })).toThrow(name);
  }
  const options = { database: db, bus, temporal, directDatabaseUrl: 'postgres://127.0.0.1:1/none' };
  expect(() => createClient(options)).toThrow('directDatabaseUrl: expected none');
  await db.end();
});
