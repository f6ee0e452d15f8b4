import { Client, Connection } from '@temporalio/client';
import pg from 'pg';
import { expect, it, vi } from 'vitest';
import { createModels } from '../../agent/models/models.ts';
import { createClient } from '../../client/client.ts';
import { AnswerReader } from '../../client/live/answer-reader.ts';
import { FollowerReads } from '../../client/live/follower-reads.ts';
import { Limiter } from '../../client/wait/limiter.ts';
import { newId } from '../../domain/ids.ts';
import { type Db } from '../../store/db.ts';
import { STATUS_SQL } from '../../store/status.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { freshRows, Session } from '../rows/session.ts';

it('R2 a stream that is opened while Postgres does not respond starts once it does', async () => {
  await using stops = new AsyncDisposableStack();
  const db = patientPool(await freshDatabase());
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

it('R2 when a query of a reading fails, the next reading brings all its chunks', async () => {
  const db = await freshRows();
  const session = await Session.saying(db, 'first', 'second');
  let failing = true;
  const query = async (...args: [statement: { text: string }]) => {
    if (failing && args[0].text.includes(STATUS_SQL)) throw new Error('the connection is lost');
    return db.query(...args);
  };
  const reads = new FollowerReads({ query } as Db, new Limiter(2));
  const answer = new AnswerReader(reads, { userId: 'ada', sessionId: session.id, runSeq: 2 });
  await expect(answer.read()).rejects.toThrow('the connection is lost');
  failing = false;
  expect((await answer.read()).items).toMatchObject([
    { type: 'start' },
    { type: 'data-status', data: { state: 'busy', position: 1 } },
  ]);
});

it('H5 refuses what HTTP refuses, with the same message, and stores nothing', async () => {
  await using stops = new AsyncDisposableStack();
  const db = patientPool(await freshDatabase());
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
    [{ parts: [file] }, 'parts[0].url: expected the URL of an attachment, or a data: URL in base64'],
    [{ text: 'x', variant: 'high' }, 'variant: expected no such field'],
    [{ id: 'no spaces', text: 'x' }, 'id: expected an id'],
    [{ text: 'x', model: 'gpt' }, 'model: expected a model such as'],
  ];
  for (const [message, words] of refused) {
    const sent = client.submit('ada', session.session_id, message);
    await expect(sent).rejects.toMatchObject({ code: 'BadRequest', message: expect.stringContaining(words) });
  }
  await expect(client.openSession('ada', { agent: 'a', headless: 'yes' } as object)).rejects.toThrow(
    'headless: expected',
  );
  await expect(client.openSession('ada', { agnet: 'a', modle: 'b' } as object)).rejects.toMatchObject({
    errors: [{ field: 'agnet' }, { field: 'modle' }],
  });
  await expect(client.openSession('ada', { metadata: { key: 'x'.repeat(20_000) } })).rejects.toMatchObject({
    code: 'TooLarge',
    errors: [{ field: 'metadata', expected: 'at most 16384 bytes' }],
  });
  expect((await client.reads.messages('ada', session.session_id)).items).toEqual([]);
});

it('H5 refuses options that are out of range or would have no effect', async () => {
  const temporal = new Client({ connection: Connection.lazy() });
  const db = patientPool('postgres://127.0.0.1:1/none');
  const bus = createMemoryBus();
  for (const name of ['commandConnections', 'readConnections']) {
    expect(() => createClient({ database: db, bus, temporal, [name]: 3 })).toThrow(name);
  }
  expect(() => createClient({ database: db, bus, temporal, preparedStatements: true })).toThrow(
    'preparedStatements: expected none with a pool',
  );
  const options = { database: db, bus, temporal, directDatabaseUrl: 'postgres://127.0.0.1:1/none' };
  expect(() => createClient(options)).toThrow('directDatabaseUrl: expected none');
  for (const name of [
    'commandConnections',
    'readConnections',
    'maxMessageBytes',
    'maxFileBytes',
    'maxImportBytes',
    'maxQueue',
  ]) {
    const given = { database: 'postgres://127.0.0.1:1/none', bus, temporal, [name]: -1 };
    expect(() => createClient(given)).toThrow(`${name}: expected a whole number of at least 1`);
  }
  expect(() => createClient({ database: db, bus, temporal, taskQueue: 'two words' })).toThrow('taskQueue: expected a');
  expect(() => createClient({ database: db, bus, temporal, hideUsersKey: 'short' })).toThrow(
    'hideUsersKey: expected 32',
  );
  await db.end();
});

/** A client on a new database, with a pool that has pg's own settings. Temporal cannot be reached. */
async function clientOnPlainPool(stops: AsyncDisposableStack) {
  const database = new pg.Pool({ connectionString: await freshDatabase() });
  // Its database may be dropped before its connections are closed.
  database.on('error', () => {});
  stops.defer(() => database.end());
  const temporal = new Client({ connection: Connection.lazy({ address: '127.0.0.1:1' }) });
  const catalog = {
    agents: ['writer'],
    defaultAgent: 'writer',
    models: {
      find: (model: string) => ({ ...createModels({}).info('rehearsal/site-builder'), model }),
      list: () => [],
      offered: () => [],
      ofAgent: () => 'acme/small',
    },
    workspaces: '/',
  };
  const client = createClient({ database, bus: createMemoryBus(), temporal, catalog });
  stops.defer(() => client.end());
  return { client, database, temporal };
}

it('H5 works with a pool of the caller, which returns bigint columns as texts', async () => {
  await using stops = new AsyncDisposableStack();
  const { client } = await clientOnPlainPool(stops);
  const sent = await client.submit('ada', 'chat-1', { id: 'm1', text: 'hello' }, { open: true });
  expect((await client.reads.messages('ada', 'chat-1', { limit: 1 })).items).toMatchObject([{ id: 'm1' }]);
  expect((await client.reads.messages('ada', 'chat-1', { after: 'm1' })).items).toEqual([]);
  expect((await client.reads.session('ada', 'chat-1')).chat.total_tokens).toBe(0);
  expect((await client.reads.log('ada', 'chat-1')).items).toMatchObject([{ seq: 1, kind: 'opened' }]);
  expect(await client.runInFlight('ada', 'chat-1')).toEqual({ session: sent.session_id, run: sent.run_seq });
});

it('H5 commands and reads refuse arguments that would be ignored or that Postgres would refuse', async () => {
  await using stops = new AsyncDisposableStack();
  const { client } = await clientOnPlainPool(stops);
  const { session_id: id } = (await client.openSession('ada')).session;
  const { commands, reads } = client;
  const refused: [call: Promise<unknown>, message: string][] = [
    [commands.close('ada', id, { abrot: true } as object), 'abrot: expected no such field'],
    [commands.close('ada', id, { abort: 'yes' } as object), 'abort: expected true or false'],
    [commands.cancel('ada', id, { reason: 'x'.repeat(2_001) }), 'reason: expected at most 2000 characters'],
    [commands.cancel('ada', id, { reason: 5 } as object), 'reason: expected a string'],
    [commands.abort('ada', id, { idempotencyKey: 'no spaces' }), 'Idempotency-Key: expected an id'],
    [reads.sessions('ada', { limit: 0 }), 'limit: expected at least 1'],
    [reads.sessions('ada', { limit: 1.5 }), 'limit: expected a whole number'],
    [reads.sessions('ada', { projet: 'x' } as object), 'projet: expected no such field'],
    [reads.sessions('ada', { project: 'a\0' }), 'project: expected 1 to 128 characters'],
    [reads.messages('ada', id, { before: 'm1', after: 'm2' }), 'before: expected either before or after'],
    [reads.log('ada', id, { after: -1 }), 'after: expected at least 0'],
  ];
  for (const [call, message] of refused) {
    await expect(call).rejects.toMatchObject({ code: 'BadRequest', message: expect.stringContaining(message) });
  }
  await expect(commands.cancelQueued('ada', id, { message_id: 'no id' })).rejects.toThrow('no such message');
});

it('T9 a chat id whose session another process has erased opens a new session', async () => {
  await using stops = new AsyncDisposableStack();
  const { client, database } = await clientOnPlainPool(stops);
  const first = await client.submit('ada', 'chat-1', { id: 'm1', text: 'hello' }, { open: true });
  await database.query(`SELECT erase_session($1, 'ada', 'home', false)`, [first.session_id]);
  await expect(client.submit('ada', 'chat-1', { id: 'm1', text: 'hello' })).rejects.toMatchObject({
    code: 'SessionNotFound',
  });
  const second = await client.submit('ada', 'chat-1', { id: 'm1', text: 'hello' }, { open: true });
  expect(second).toMatchObject({ repeated: false, run_seq: 1 });
  expect(second.session_id).not.toBe(first.session_id);
});

it('R2 streams end with their client, and a new one does not begin', async () => {
  await using stops = new AsyncDisposableStack();
  const { client } = await clientOnPlainPool(stops);
  const { session_id: id } = (await client.openSession('ada')).session;
  const [events, rendezvous] = [client.events('ada', id), client.rendezvous('ada')];
  expect(await events.next()).toMatchObject({ value: { event: 'status' } });
  expect(await rendezvous.next()).toMatchObject({ value: { event: 'session_open' } });
  expect(await rendezvous.next()).toMatchObject({ value: { event: 'ready' } });
  const waiting = Promise.all([events.next(), rendezvous.next()]);
  await client.end();
  expect(await waiting).toEqual([{ done: true }, { done: true }]);
  expect(await client.events('ada', id).next()).toEqual({ done: true });
  expect(await client.rendezvous('ada').next()).toEqual({ done: true });
});

it('T9 erasing a user waits for an unreachable Temporal once, not for each session', async () => {
  await using stops = new AsyncDisposableStack();
  const { client, database, temporal } = await clientOnPlainPool(stops);
  for (let n = 0; n < 5; n += 1) await client.openSession('ada');
  const waits = vi.spyOn(temporal.connection, 'withDeadline');
  await client.eraseUser('ada');
  expect(waits.mock.calls).toHaveLength(1);
  const { rows } = await database.query(
    'SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM erasures) AS queued',
  );
  expect(rows).toEqual([{ count: '0', queued: '16' }]);
});
