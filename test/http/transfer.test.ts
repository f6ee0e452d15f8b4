// Export and import of sessions, through HTTP. Temporal is down.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { readSession } from '../../store/sessions.ts';
import { readExport } from '../../store/transfer.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { compact } from '../rows/compacting.ts';
import { answered, conversation, everything, told } from '../rows/conversation.ts';
import { rows, Session, textPart, toolPart } from '../rows/session.ts';
import { joined, type Line, parsed } from './json-lines.ts';

const MAX_IMPORT = 56 * 1024 ** 2;

let databaseUrl: string;
let host: TestHost;
let db: pg.Pool;
let ada: TestCaller;
let eve: TestCaller;
beforeAll(async () => {
  databaseUrl = await freshDatabase();
  host = await startHost({ databaseUrl, clientOptions: { maxImportBytes: MAX_IMPORT } });
  db = patientPool(databaseUrl);
  afterFile(() => db.end());
  ada = host.as('ada');
  eve = host.as('eve');
});

async function exported(caller: TestCaller, session: string): Promise<string> {
  const response = await caller.fetch(`/api/sessions/${session}/export`);
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/jsonl']);
  return response.text();
}

async function imported(caller: TestCaller, body: BodyInit, more: RequestInit = {}, query = '') {
  const response = await caller.fetch(`/api/import${query}`, { method: 'POST', body, ...more });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

/** A session with everything that an export contains. */
async function eventful(): Promise<Session> {
  const session = await conversation(db, 'one', 'two', 'three');
  await session.rewind('three');
  await told(session, 'four');
  await session.edit('four', 'vier \u2028 "quoted" \\ 🦭', { id: 'vier' });
  const run = (await session.runs()).at(-1)!['seq'] as number;
  const { answer_id: answer } = (await session.claim(run, [0, run, 1])) as { answer_id: string };
  const call = newId('call');
  const reasoning = {
    type: 'reasoning',
    text: 'well',
    providerMetadata: { x: { huge: 12345678901234567890n.toString(), f: 1.5 } },
  };
  await session.settleStep(run, [0, run, 1], {
    parts: [{ ...textPart(0), type: 'reasoning', data: reasoning, settled: true }, toolPart(call, 1)],
    toolCalls: [{ tool_call_id: call, name: 'build_and_deploy' }],
    usage: { input: 7, cache_read: 5 },
    cost: 0.25,
  });
  await session.settleRun(run, 'aborted');
  await db.query(
    `UPDATE chat_messages SET metadata = metadata || '{"snapshot_id": "snap", "n": 1.5}' WHERE session_id = $1 AND id = 'one'`,
    [session.id],
  );
  await db.query(
    `UPDATE chat_sessions SET metadata = '{"title": "A garden"}', archived_at = '2026-02-03T04:05:06.789012Z' WHERE session_id = $1`,
    [session.id],
  );
  expect((await session.messages()).map((row) => row['id'])).toContain(answer);
  return session;
}

describe('export and import', () => {
  it('T7 an import has the same messages, parts and times, and its export the same bytes apart from ids', async () => {
    const session = await eventful();
    const text = await exported(ada, session.id);
    const { status, body } = await imported(eve, text);
    expect({ status, body }).toEqual({
      status: 201,
      body: { session_id: expect.stringMatching(/^ses_/), messages: 10 },
    });
    const copy = new Session(db, body['session_id'], 'eve');
    const withoutIds = (lines: string) => lines.replaceAll(/"id": "(imported:)?event:\d+"/g, '"id": "event"');
    expect(withoutIds(await exported(eve, copy.id))).toBe(withoutIds(text));
    expect(text).not.toContain('snap');
    const stored = async (each: Session) =>
      (await everything(each)).map((row) => [row['id'], row['hidden'], row['created_at']]);
    expect(await stored(copy)).toEqual(await stored(session));
    const sums = [
      'prompt_tokens',
      'completion_tokens',
      'reasoning_tokens',
      'cache_read',
      'cache_write',
      'total_tokens',
      'cost_usd',
    ];
    const [from, to] = [await session.chat(), await copy.chat()];
    for (const name of sums) expect([name, to[name]]).toEqual([name, from[name]]);
    expect(await copy.row()).toMatchObject({ user_id: 'eve', phase: 'chatting', project_id: null, pending_tool: null });
    expect(to).toMatchObject({
      parent_id: null,
      workspace_root: null,
      permissions: [],
      metadata: { title: 'A garden' },
    });
    expect((await copy.runs()).map((run) => run['state'])).toEqual([
      'finished',
      'finished',
      'finished',
      'finished',
      'aborted',
    ]);
    expect((await ada.get(`/api/sessions/${copy.id}`)).status).toBe(404);
    const events = "SELECT actor, data FROM session_events WHERE session_id = $1 AND kind = 'imported'";
    expect(await rows(db, events, [copy.id])).toEqual([{ actor: 'user', data: { messages: 10 } }]);
    const hits = (await eve.get('/api/search?q=quoted')).body.items as { session_id: string; message_id: string }[];
    expect(hits.map((hit) => [hit.session_id, hit.message_id])).toEqual([[copy.id, 'vier']]);
  });

  it('T7 an imported session goes on: messages, repeats, new answers, rewinds that do not touch what others hid', async () => {
    const session = await eventful();
    const { body } = await imported(ada, await exported(ada, session.id));
    const copy = new Session(db, body['session_id']);
    expect(await copy.say('one', { id: 'one' })).toMatchObject({ ok: true, accepted: false, state: 'finished' });
    await told(copy, 'five');
    expect((await copy.messages()).map((row) => row['id'])).toEqual(expect.arrayContaining(['five']));
    const before = await everything(copy);
    await copy.rewind('one');
    await copy.unrewind();
    expect(await everything(copy)).toEqual(before);
    expect(await copy.regenerate('five')).toMatchObject({ ok: true });
  });

  it('T7 X5 what providers counted elsewhere does not say how full the window is; the next step here does', async () => {
    const session = await eventful();
    const copy = new Session(db, (await imported(ada, await exported(ada, session.id))).body['session_id']);
    const windowOf = async ({ id }: Session) => (await readSession(db, 'ada', id))?.window;
    const stepsOf = async (each: Session) => (await each.runs()).map((run) => run['step']).filter((step) => step !== 0);
    expect(await stepsOf(copy)).toEqual(await stepsOf(session));
    expect(await windowOf(session)).toEqual({ model: 'test/model', tokens: 12 });
    expect(await windowOf(copy)).toEqual({ model: 'test/model', tokens: null });
    await copy.rewind('one');
    await copy.unrewind();
    expect(await windowOf(copy)).toEqual({ model: 'test/model', tokens: null });
    for (const each of [session, copy]) {
      const { run_seq: run } = (await each.say('five')) as { run_seq: number };
      await each.claim(run, [0, run, 1]);
      await each.settleStep(run, [0, run, 1], { usage: { input: 70, output: 3 }, end: true });
      expect(await windowOf(each)).toEqual({ model: 'test/model', tokens: 73 });
    }
  });

  it('T7 a summary that was discarded stays hidden by itself', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const summary = await compact(session, { isUsed: false });
    const text = await exported(ada, session.id);
    expect(text).toContain(`"hidden_by": {"id": "${summary}", "cause": "compaction"}`);
    const { status, body } = await imported(ada, text);
    expect(status).toBe(201);
    expect(await exported(ada, body['session_id']!)).toBe(text);
  });

  it('T7 an agent and a model that are not configured here are replaced by those that the import names', async () => {
    const lines = parsed(await exported(ada, (await conversation(db, 'one')).id));
    Object.assign(lines[0]!, { agent: 'nobody', model: 'no/model' });
    const text = joined(lines);
    const model = (await ada.get('/api/models')).body['default'] as string;
    expect(await imported(ada, text, {}, `?model=${model}`)).toMatchObject({ body: { code: 'AgentNotConfigured' } });
    expect(await imported(ada, text, {}, '?agent=site-builder')).toMatchObject({
      body: { code: 'ModelNotConfigured' },
    });
    expect(await imported(ada, text, {}, '?agent=site-builder&model=x/y')).toMatchObject({
      status: 422,
      body: { code: 'ModelNotConfigured' },
    });
    expect(await imported(ada, text, {}, '?model=two words')).toMatchObject({ status: 400 });
    const { body } = await imported(ada, text, {}, `?agent=site-builder&model=${model}`);
    expect(await new Session(db, body['session_id']).chat()).toMatchObject({ agent: 'site-builder', model });
  });

  it('T7 a part that is longer than a line may be is split, and whole again', async () => {
    const session = await conversation(db, 'one');
    const [answer] = await session.parts(1);
    const long = (text: string) =>
      db.query(
        `UPDATE chat_parts SET type = $2::jsonb ->> 'type', data = $2::jsonb WHERE session_id = $1 AND id = $3`,
        [session.id, text, answer!['id']],
      );
    const url = `data:image/png;base64,${randomBytes(9 * 1024 ** 2).toString('base64')}`;
    for (const data of [
      { type: 'file', mediaType: 'image/png', url },
      { type: 'text', text: `"🦭 \\ grün \n ${'ü'.repeat(6_000_001)}` },
      { type: 'text', text: '\n'.repeat(12_000_000) },
    ]) {
      await long(JSON.stringify(data));
      const text = await exported(ada, session.id);
      expect(Math.max(...text.split('\n').map((line) => Buffer.byteLength(line)))).toBeLessThan(4 * 1024 ** 2);
      const { status, body } = await imported(ada, text);
      expect([status, body['detail']]).toEqual([201, undefined]);
      expect(await exported(ada, body['session_id']!)).toBe(text);
      expect((await new Session(db, body['session_id']).parts(1))[0]!['data']).toEqual(data);
    }
  });

  it('T7 T10 what is not seen of a file’s name is left out, as from new messages', async () => {
    const session = await conversation(db, 'one');
    const lines = parsed(await exported(ada, session.id));
    const file = (filename: string) => {
      const data = { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,aGVsbG8=', filename };
      return { ...lines[2]!, id: 'file', index: 7, type: 'file', data };
    };
    lines.splice(3, 0, file('photo\u202Egnp.exe'));
    const { body } = await imported(ada, joined(lines));
    const copy = parsed(await exported(ada, body['session_id']!));
    expect(copy[3]).toEqual(file('photognp.exe'));
    lines[3]!['data'] = { ...file('').data, filename: 7 };
    expect(await imported(ada, joined(lines))).toMatchObject({ status: 400, body: { code: 'InvalidLine' } });
  });

  it('T7 X2 snapshots that an export names are not those of the import', async () => {
    const lines = parsed(await exported(ada, (await conversation(db, 'one')).id));
    lines[1]!.metadata!['snapshot_id'] = 'of somebody';
    const { status, body } = await imported(ada, joined(lines));
    expect(status).toBe(201);
    const named = `SELECT FROM chat_messages WHERE session_id = $1 AND metadata ? 'snapshot_id'`;
    expect(await rows(db, named, [body['session_id']])).toEqual([]);
  });

  it('T7 metadata of a message are never split', async () => {
    const session = await conversation(db, 'one');
    await db.query(`UPDATE chat_messages SET metadata = metadata || $2 WHERE session_id = $1 AND id = 'one'`, [
      session.id,
      { note: 'x'.repeat(3_500_000) },
    ]);
    const text = await exported(ada, session.id);
    expect(await exported(ada, (await imported(ada, text)).body['session_id']!)).toBe(text);
  });

  it('T7 what reads all messages of an export or an import may take longer than other statements', async () => {
    const ms = patient(1_500);
    const limited = `${databaseUrl}?statement_timeout=${ms}&query_timeout=${ms}`;
    const hasty = (await startHost({ databaseUrl: limited })).as('ada');
    const session = await conversation(db, 'one');
    const init = { method: 'POST', body: 'a note', headers: { 'content-type': 'text/plain' } };
    const response = await ada.fetch(`/api/sessions/${session.id}/attachments`, init);
    const { url } = (await response.json()) as { url: string };
    const data = { type: 'file', mediaType: 'text/plain', url };
    await session.say('look', { parts: [{ id: 'file', type: 'file', data }] });
    await db.query(
      `ALTER FUNCTION file_urls(text) RENAME TO file_urls_at_once;
       CREATE FUNCTION file_urls(p_session text) RETURNS SETOF text LANGUAGE plpgsql STABLE AS $$
       BEGIN
         PERFORM pg_sleep(${ms / 1_000 + 0.5});
         RETURN QUERY SELECT file_urls_at_once(p_session);
       END $$`,
    );
    try {
      const text = await exported(hasty, session.id);
      expect(text).toContain('"kind": "attachment"');
      expect(await imported(hasty, text)).toMatchObject({ status: 201 });
    } finally {
      await db.query('DROP FUNCTION file_urls(text); ALTER FUNCTION file_urls_at_once(text) RENAME TO file_urls');
    }
  });

  it('T7 an empty session too, with or without a newline at the end', async () => {
    const session = await Session.at('chatting', db);
    const text = await exported(ada, session.id);
    expect((await imported(ada, text)).body['messages']).toBe(0);
    expect((await imported(ada, text.trimEnd())).body['messages']).toBe(0);
  });

  it('T7 numbers that only Postgres would refuse, and the parts that workers write of themselves, are imported', async () => {
    const session = await conversation(db, 'one');
    const lines = parsed(await exported(ada, session.id));
    const usage = '{"input": 7.0, "output": 1e3, "reasoning": 0, "cache_read": 0, "cache_write": 0}';
    const reserved = [
      { type: 'data-compaction', data: { ...COMPACTION, split: true } },
      { type: 'data-prune', data: { outputs: [{ tool_call_id: 'call', tokens: 9 }], tokens: 9, auto: false } },
      { type: 'data-refused', id: 'prt_1', data: { messages: ['one'] } },
      { type: 'data-refused', id: 'prt_1', data: { messages: ['one'], whole: true } },
      { type: 'data-interrupted', id: 'prt_1', data: {} },
      { type: 'custom', kind: 'openai.compaction', providerMetadata: { openai: { itemId: 'cmp_1' } } },
      { type: 'reasoning-file', mediaType: 'image/png', url: 'data:image/png;base64,aGVsbG8=' },
    ];
    for (const [at, data] of reserved.entries()) {
      lines.splice(3 + at, 0, { ...lines[2]!, id: `p${at}`, index: 10 + at, type: data.type, data });
    }
    const digits = `0.${'1'.repeat(20_000)}`;
    const text = joined(lines).replace('"data":{', `"data":{"precise":${digits},`);
    const answer = lines.findIndex(({ role }) => role === 'assistant');
    const all = text.split('\n');
    all[answer] = all[answer]!.replace(/"metadata":\{.*?\},"position"/, `"metadata":{"usage":${usage}},"position"`);
    const { status, body } = await imported(ada, all.join('\n'));
    expect([status, body['detail']]).toEqual([201, undefined]);
    const copy = await new Session(db, body['session_id']).chat();
    expect([Number(copy['prompt_tokens']), Number(copy['completion_tokens'])]).toEqual([7, 1000]);
  });

  it('T7 Q2 imports are received four at a time and stored two at a time: connections are left for commands', async () => {
    const text = await exported(ada, (await conversation(db, 'one')).id);
    const gate = Promise.withResolvers<void>();
    let begun = 0;
    let received = 0;
    async function* body() {
      begun += 1;
      // At once: those that send nothing lose their places.
      if (begun === 4) gate.resolve();
      await gate.promise;
      yield Buffer.from(text);
      received += 1;
    }
    const lock = await db.connect();
    let imports: Promise<unknown>[] = [];
    try {
      await lock.query('BEGIN');
      await lock.query('LOCK TABLE chat_messages IN EXCLUSIVE MODE');
      imports = Array.from({ length: 6 }, (_, n) => host.client.importSession(`user-${n % 3}`, body()));
      const waiting = () =>
        rows(db, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%import_batch%'");
      await eventually(async () => expect([received, (await waiting()).length]).toEqual([4, 2]));
      for (let n = 0; n < 5; n += 1) expect((await ada.post('/api/sessions', {})).status).toBe(201);
      expect([begun, (await waiting()).length]).toEqual([4, 2]);
    } finally {
      gate.resolve();
      await lock.query('ROLLBACK');
      lock.release();
    }
    await Promise.all(imports);
    expect(begun).toBe(6);
  });

  it('T7 Q2 exports are read two at a time: connections are left for commands', async () => {
    const users = ['ada', 'bob', 'cleo', 'dan'];
    const sessions = await Promise.all(users.map((user) => Session.at('chatting', db, { user })));
    const exports = sessions.map(({ id }, n) => host.client.exportSession(users[n]!, id));
    const lock = await db.connect();
    let firsts: Promise<unknown>[] = [];
    try {
      await lock.query('BEGIN');
      await lock.query('LOCK TABLE attachment_contents IN ACCESS EXCLUSIVE MODE');
      firsts = exports.map((each) => each.next());
      const waiting = () =>
        rows(db, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%export_attachments%'");
      await eventually(async () => expect(await waiting()).toHaveLength(2));
      for (let n = 0; n < 5; n += 1) expect((await ada.post('/api/sessions', {})).status).toBe(201);
      expect(await waiting()).toHaveLength(2);
    } finally {
      await lock.query('ROLLBACK');
      lock.release();
    }
    await Promise.all(firsts);
    for (const each of exports) await each.return();
  });

  it('T7 T10 Q2 files of imports and uploads are put into Postgres four at a time together', async () => {
    const { client } = host;
    const session = await conversation(db, 'one');
    const [first, ...others] = parsed(await exported(ada, session.id));
    const bytes = Buffer.from('a file of an import');
    const attachment = {
      ...{ kind: 'attachment', id: 'att_1', digest: createHash('sha256').update(bytes).digest('hex') },
      ...{ media_type: 'text/plain', filename: null, size: bytes.length, created_at: '2026-01-01T00:00:00Z' },
    };
    const content = { kind: 'content', data: bytes.toString('base64') };
    const data = { type: 'file', mediaType: 'text/plain', url: 'perdure:att_1' };
    const part = { ...others[1]!, id: 'file', index: 7, type: 'file', data };
    const text = joined([first, attachment, content, ...others.slice(0, 2), part, ...others.slice(2)]);
    let received = 0;
    async function* body(given: string) {
      yield Buffer.from(given);
      received += 1;
    }
    const lock = await db.connect();
    let sent: Promise<unknown>[] = [];
    try {
      await lock.query('BEGIN');
      await lock.query('LOCK TABLE attachment_chunks IN EXCLUSIVE MODE');
      sent = [
        ...[1, 2, 3].map((n) =>
          client.attach('ada', session.id, { content: body(`file ${n}`), mediaType: 'text/plain' }),
        ),
        ...[1, 2, 3, 4].map((n) => client.importSession(`user-${n}`, body(text))),
      ];
      const waiting = () =>
        rows(db, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%attachment_chunks%'");
      // An import reads on when its file is stored.
      await eventually(async () => expect([received, (await waiting()).length]).toEqual([3, 4]));
      for (let n = 0; n < 5; n += 1) expect((await ada.post('/api/sessions', {})).status).toBe(201);
      expect(await waiting()).toHaveLength(4);
    } finally {
      await lock.query('ROLLBACK');
      lock.release();
    }
    await Promise.all(sent);
  });

  it('T7 Q2 exports of one user do not keep those of others waiting, and one whose reader has gone is not read', async () => {
    const { client } = host;
    const [one, two] = [await conversation(db, 'one'), await Session.at('chatting', db, { user: 'eve' })];
    const gone = new AbortController();
    const lock = await db.connect();
    let read: Promise<unknown>[] = [];
    try {
      await lock.query('BEGIN');
      await lock.query('LOCK TABLE chat_parts IN ACCESS EXCLUSIVE MODE');
      const first = async (user: string, { id }: Session, signal = new AbortController().signal) => {
        const pieces = client.exportSession(user, id, { signal });
        const piece = await pieces.next();
        await pieces.return();
        return piece;
      };
      read = [first('ada', one)];
      const waiting = () =>
        rows(db, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM export_%'");
      await eventually(async () => expect(await waiting()).toHaveLength(1));
      read.push(first('ada', one));
      const left = first('ada', one, gone.signal);
      for (let n = 0; n < 20; n += 1) expect(await waiting()).toHaveLength(1);
      read.push(first('eve', two));
      await eventually(async () => expect(await waiting()).toHaveLength(2));
      gone.abort();
      await expect(left).rejects.toThrow('aborted while it waited');
    } finally {
      await lock.query('ROLLBACK');
      lock.release();
    }
    expect(await Promise.all(read)).toMatchObject([{ done: false }, { done: false }, { done: false }]);
  });

  it('T7 what a slow reader has not taken of an export of 10,000 messages does not pile up in memory', async () => {
    const session = await Session.at('chatting', db);
    const from = 'FROM generate_series(1, 10000) AS n';
    await db.query(
      `INSERT INTO chat_messages (session_id, id, position, role) SELECT $1, 'm' || n, n * 1000, 'user' ${from}`,
      [session.id],
    );
    await db.query(
      `INSERT INTO chat_parts (session_id, id, message_id, index, type, data)
       SELECT $1, 'p' || n, 'm' || n, 0, 'text', jsonb_build_object('type', 'text', 'text', repeat('four thousand ', 300)) ${from}`,
      [session.id],
    );
    const { client } = host;
    let produced = 0;
    let bytes = 0;
    /** Most bytes that were produced and not read. */
    let ahead = 0;
    let pieces = 0;
    let largest = 0;
    /** The host has a piece and asks for no other, or has all. */
    let isPaused = false;
    const original = client.exportSession.bind(client);
    client.exportSession = async function* counted(...args) {
      for await (const piece of original(...args)) {
        produced += piece.length;
        ahead = Math.max(ahead, produced - bytes);
        pieces += 1;
        largest = Math.max(largest, piece.length);
        isPaused = true;
        yield piece;
        isPaused = false;
      }
      isPaused = true;
    };
    /** A host that does not wait for its reader asks for more within these turns of the event loop. */
    const untilPaused = async () => {
      for (let turns = 0; turns < 20; turns = isPaused ? turns + 1 : 0) await setImmediate();
    };
    try {
      const request = get(`${host.url}/api/sessions/${session.id}/export`, { headers: { 'x-perdure-user': 'ada' } });
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      let lines = 0;
      // Reads the first quarter only when the host produces no more.
      for await (const chunk of response as AsyncIterable<Buffer>) {
        if (bytes < 10_000_000) await untilPaused();
        bytes += chunk.length;
        for (const byte of chunk) if (byte === 10) lines += 1;
      }
      expect(lines).toBe(20_001);
      expect(bytes).toBe(produced);
      expect(produced).toBeGreaterThan(40_000_000);
      expect(ahead, 'bytes in buffers').toBeLessThan(24_000_000);
      expect(largest).toBeLessThanOrEqual(32 * 1024);
      expect(pieces).toBeGreaterThan(1_000);
    } finally {
      client.exportSession = original;
    }
  });

  it('Q3 T7 an export counts as a stream of its user until it has been read', async () => {
    const session = await Session.at('chatting', db);
    const few = (await startHost({ databaseUrl, parts: { maxReaders: 1 } })).as('ada');
    const path = `/api/sessions/${session.id}/export`;
    expect((await few.get('/api/sessions/ses_none/export')).status).toBe(404);
    await db.query(
      `INSERT INTO chat_messages (session_id, id, position, role, metadata)
       SELECT $1, 'm' || n, n, 'user', jsonb_build_object('note', repeat('x', 1000000)) FROM generate_series(1, 30) AS n`,
      [session.id],
    );
    let held = 0;
    let most = 0;
    await readExport(db, session.id, {
      add: (line) => {
        held += line.length;
        most = Math.max(most, held);
      },
      flush: async () => void (held = 0),
    });
    expect(most).toBeLessThan(3_000_000);
    const first = await few.fetch(path);
    expect(await few.get(path)).toMatchObject({ status: 429, body: { code: 'TooMany' } });
    expect((await first.text()).length).toBeGreaterThan(30_000_000);
    const next = await eventually(async () => {
      const again = await few.fetch(path);
      expect(again.status).toBe(200);
      return again;
    });
    await next.body?.cancel();
    await eventually(async () => expect((await few.fetch(path)).status).toBe(200));
  });

  it('T7 Q3 an export is of one moment, and a user has four at a time until they are read', async () => {
    const session = await conversation(db, 'one', 'two');
    const queued = (await session.say('x'.repeat(2_000_000), { id: 'three' })) as { run_seq: number };
    await session.say('four', { id: 'four' });
    const { client } = host;
    const text = await exported(ada, session.id);
    const pieces: string[] = [];
    let isChanged = false;
    const change = async () => {
      if (isChanged) return;
      isChanged = true;
      // The answer stands between messages that are exported, and the edit hides them.
      await answered(session, queued.run_seq);
      await session.edit('two', 'zwei', { id: 'zwei' });
    };
    const found = await readExport(db, session.id, {
      add: (line) => void pieces.push(`${line}\n`),
      flush: change,
    });
    expect(isChanged).toBe(true);
    expect(`${found!.line}\n${pieces.join('')}`).toBe(text);
    expect((await imported(ada, text)).status).toBe(201);

    const others = Array.from({ length: 5 }, () => client.exportSession('ada', session.id));
    for (const each of others.slice(0, 4)) await each.next();
    await expect(others[4]!.next()).rejects.toThrow('expected at most 4 exports');
    for (const each of others) await each.return();
    for (let n = 0; n < 9; n += 1) {
      await eventually(async () => {
        const response = await ada.fetch(`/api/sessions/${session.id}/export`);
        await response.body?.cancel();
        expect(response.status).toBe(200);
      });
    }
  });

  it('T7 only its user exports a session', async () => {
    const session = await conversation(db, 'mine');
    expect((await eve.get(`/api/sessions/${session.id}/export`)).body).toMatchObject({ code: 'SessionNotFound' });
  });
});

const set =
  (at: number, change: object) =>
  (lines: Line[]): void => {
    Object.assign(lines[at]!, change);
  };

/** What a summary contains. */
const COMPACTION = { summary: 'In short', tail_start_id: 'two', auto: true, summary_tokens: 3, turns: 1 };

describe('an import is refused with the number of its line, and nothing is stored:', () => {
  let lines: Line[];
  beforeAll(async () => {
    lines = parsed(await exported(ada, (await eventful()).id));
  });
  const rowCounts = () =>
    rows(
      db,
      'SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM chat_messages), (SELECT count(*) FROM chat_parts), (SELECT count(*) FROM session_events)',
    );
  const refusedWith = async (body: BodyInit, status: number, code: string, words: string, more: RequestInit = {}) => {
    const before = await rowCounts();
    const refused = await imported(ada, body, more);
    expect({ status: refused.status, code: refused.body['code'], detail: refused.body['detail'] }).toEqual({
      status,
      code,
      detail: expect.stringContaining(words),
    });
    expect(await rowCounts()).toEqual(before);
  };

  // Of the export: 1 the session, 2 a message, 3 its part, 4 a message, 5 its part, …
  it.each<[string, (lines: Line[]) => void, string, string]>([
    [
      'another kind',
      set(2, { kind: 'thing' }),
      'InvalidLine',
      'line 3.kind: expected "session", "attachment", "message", ',
    ],
    ['a part without data', set(2, { data: null }), 'InvalidLine', 'line 3.data: expected JSON'],
    [
      'a part whose data is no JSON',
      (all) => {
        set(2, { data: null })(all);
        all.splice(3, 0, { kind: 'content', data: '{"type":' }, { kind: 'content', data: '"text"' });
      },
      'InvalidLine',
      'line 3.data: expected JSON',
    ],
    [
      'a part whose data has the character U+0000, in pieces',
      (all) => {
        set(2, { data: null })(all);
        all.splice(3, 0, { kind: 'content', data: String.raw`{"type":"text","text":"a\u0000b"}` });
      },
      'InvalidLine',
      'line 3.data: expected no character U+0000',
    ],
    [
      'content that is no text',
      (all) => {
        set(2, { data: null })(all);
        all.splice(3, 0, { kind: 'content', data: 1 } as unknown as Line);
      },
      'InvalidLine',
      'line 4.data: expected a string',
    ],
    [
      'content of no part',
      (all) => all.splice(3, 0, { kind: 'content', data: '{}' }),
      'WrongOrder',
      'line 4: expected an attachment before it, or a part whose data is null',
    ],
    [
      'a value twice after a part in pieces',
      (all) => {
        const data = JSON.stringify(all[2]!['data']);
        set(2, { data: null })(all);
        set(4, { id: all[2]!['id'] })(all);
        all.splice(3, 0, { kind: 'content', data: data.slice(0, 9) }, { kind: 'content', data: data.slice(9) });
      },
      'DuplicateId',
      'line 7.id: expected another one',
    ],
    ['another version', set(0, { version: 2 }), 'InvalidLine', 'line 1.version: expected version 1'],
    ['an unknown field', set(1, { hello: 1 }), 'InvalidLine', 'line 2.hello: expected no such field'],
    ['no id', set(1, { id: undefined }), 'InvalidLine', 'line 2.id: expected an id'],
    ['a role of the system', set(1, { role: 'system' }), 'InvalidLine', 'line 2.role: expected "user" or "assistant"'],
    ['a time', set(1, { created_at: 'yesterday' }), 'InvalidLine', 'line 2.created_at: expected a time'],
    ['a month that does not exist', set(1, { created_at: '2026-13-41T00:00:00Z' }), 'InvalidLine', 'line 2.created_at'],
    ['a day that does not exist', set(1, { created_at: '2026-02-30T00:00:00Z' }), 'InvalidLine', 'line 2.created_at'],
    ['the year 0', set(1, { updated_at: '0000-01-01T00:00:00Z' }), 'InvalidLine', 'line 2.updated_at: expected a time'],
    [
      'a usage beyond all models',
      set(3, { metadata: { usage: { input: 2e12, output: 0, reasoning: 0, cache_read: 0, cache_write: 0 } } }),
      'InvalidLine',
      'line 4.metadata.usage.input',
    ],
    ...[
      { type: 'data-compaction', data: { summary: 'short' } },
      { type: 'data-compaction', data: { ...COMPACTION, summary: { text: 'x' } } },
      { type: 'data-compaction', data: { ...COMPACTION, more: 1 } },
      { type: 'data-prune', data: { outputs: [null], tokens: 1, auto: true } },
      { type: 'data-prune', data: { outputs: 1, tokens: 1, auto: true } },
      { type: 'data-refused', data: { messages: 'one' } },
      { type: 'data-refused', data: {} },
      { type: 'data-interrupted' },
    ].map((data): [string, (all: Line[]) => void, string, string] => [
      `the part ${JSON.stringify(data)}`,
      set(2, { type: data.type, data }),
      'InvalidLine',
      'line 3.data',
    ]),
    ['a usage', set(3, { metadata: { usage: { input: 'many' } } }), 'InvalidLine', 'line 4.metadata.usage.input'],
    [
      'a cost that is no number',
      set(3, { metadata: { discarded: [{ cost_usd: 'much' }] } }),
      'InvalidLine',
      'line 4.metadata.discarded[0].cost_usd',
    ],
    ['a part of no type', set(2, { type: 'odd', data: { type: 'odd' } }), 'InvalidLine', 'line 3.data.type: expected'],
    [
      'an address to fetch',
      set(2, { type: 'file', data: { type: 'file', mediaType: 'image/png', url: 'http://169.254.169.254/' } }),
      'InvalidLine',
      'line 3.data',
    ],
    [
      'an address to fetch after a thought',
      set(2, {
        type: 'reasoning-file',
        data: { type: 'reasoning-file', mediaType: 'image/png', url: 'data:image/png;base64,aGVsbG8=,http://x/' },
      }),
      'InvalidLine',
      'line 3.data',
    ],
    [
      'a type that is not its data’s',
      set(2, { type: 'reasoning' }),
      'InvalidLine',
      'line 3.type: expected the type of its data',
    ],
    ['a tool call that is not its data’s', set(2, { tool_call_id: 'x' }), 'InvalidLine', 'line 3.tool_call_id'],
    [
      'the character U+0000',
      set(2, { data: { type: 'text', text: 'a\u0000b' } }),
      'InvalidLine',
      'line 3: expected no character U+0000',
    ],
    [
      'half of a surrogate pair',
      set(2, { data: { type: 'text', text: 'a\uD800b' } }),
      'InvalidLine',
      'line 3: expected no character U+0000',
    ],
    [
      'a number of messages',
      set(0, { messages: 7 }),
      'InvalidLine',
      'expected 7 messages as the first line says, not 10',
    ],
    [
      'the session later',
      (all) => all.push(all.shift()!),
      'WrongOrder',
      'line 1: expected the line of the session first',
    ],
    [
      'the session twice',
      (all) => all.splice(3, 0, all[0]!),
      'WrongOrder',
      'line 4: expected an attachment, a message or a part',
    ],
    [
      'a part before any message',
      (all) => all.splice(1, 1),
      'WrongOrder',
      'line 2: expected a message before its parts',
    ],
    [
      'messages in another order',
      (all) => all.push(...all.splice(1, 2)),
      'WrongOrder',
      '.position: expected more than',
    ],
    ['the same position twice', set(3, { position: 1000 }), 'WrongOrder', 'line 4.position: expected more than 1000'],
    [
      'a position between messages of the user',
      set(1, { position: 999 }),
      'InvalidLine',
      'line 2.position: expected a multiple of 1000 for the role "user"',
    ],
    ['a user’s position', set(3, { position: 2000 }), 'InvalidLine', 'line 4.position: expected no multiple of 1000'],
    [
      'parts in another order',
      (all) => all.splice(3, 0, { ...all[2]!, id: 'again' }),
      'WrongOrder',
      'line 4.index: expected more than 0',
    ],
    [
      'a part of another message',
      set(2, { message_id: 'elsewhere' }),
      'ForeignId',
      'line 3.message_id: expected "one"',
    ],
    [
      'a message that a stranger hid',
      (all) =>
        set(
          all.findIndex((line) => line['id'] === 'three'),
          { metadata: { hidden_by: { cause: 'edit', id: 'nobody' } } },
        )(all),
      'ForeignId',
      '.metadata.hidden_by.id: expected the id of a later message',
    ],
    [
      'a message that an earlier one hid',
      (all) =>
        set(
          all.findIndex((line) => line['id'] === 'three'),
          { metadata: { hidden_by: { cause: 'compaction', id: 'one' } } },
        )(all),
      'ForeignId',
      '.metadata.hidden_by.id',
    ],
    [
      'a message that hides itself',
      (all) =>
        set(
          all.findIndex((line) => line['id'] === 'three'),
          { metadata: { hidden_by: { cause: 'edit', id: 'three' } } },
        )(all),
      'ForeignId',
      '.metadata.hidden_by.id',
    ],
    [
      'a message twice',
      (all) => all.splice(0, all.length, { ...all[0]!, messages: 2 }, all[1]!, { ...all[1]!, position: 7 * 1000 }),
      'DuplicateId',
      'line 3.id: expected another one: "one" occurs before',
    ],
    ['a part twice', (all) => set(4, { id: all[2]!['id'] })(all), 'DuplicateId', 'line 5.id: expected another one'],
    ['an agent that is not there', set(0, { agent: 'nobody' }), 'AgentNotConfigured', 'choose another "agent"'],
    ['a model that is not there', set(0, { model: 'no/model' }), 'ModelNotConfigured', 'choose another "model"'],
  ])('T7 %s', async (_what, change, code, words) => {
    const changed = structuredClone(lines);
    change(changed);
    await refusedWith(joined(changed), code.endsWith('Configured') ? 422 : 400, code, words);
  });

  it('T7 a tool call twice', async () => {
    const tool = lines.find((line) => line['tool_call_id'])!;
    const changed = [...lines, { ...tool, id: 'again', index: 99 }];
    await refusedWith(joined(changed), 400, 'DuplicateId', `line ${changed.length}.tool_call_id: expected another one`);
  });

  it.each([
    ['nothing', '', 'WrongOrder', 'line 1: expected the line of the session first'],
    ['no JSON', '{', 'InvalidLine', 'line 1: expected JSON'],
    ['no object', '[]', 'InvalidLine', 'line 1: expected a JSON object'],
    ['an empty line', '\n{}', 'InvalidLine', 'line 1: expected JSON'],
    ['deep nesting', `{"a":${'['.repeat(100)}${']'.repeat(100)}}`, 'InvalidLine', 'line 1: expected at most 64 levels'],
    ['a number without end', '{"a":1e999}', 'InvalidLine', 'line 1: expected numbers that a double can hold'],
    ['a prototype', '{"__proto__":{}}', 'InvalidLine', 'line 1: expected no key "__proto__"'],
    ['bytes that are no text', new Uint8Array([0x7b, 0xff, 0x7d]), 'InvalidLine', 'line 1: expected text in UTF-8'],
  ])('T7 %s', (_what, body, code, words) => refusedWith(body, 400, code, words));

  it('T7 a line of 100 MB, of which only the first megabytes are read before the answer', async () => {
    let sent = 0;
    const megabyte = new Uint8Array(1_000_000).fill(0x20);
    const head = new TextEncoder().encode(`${joined(lines.slice(0, 1))}\n`);
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(sent === 0 ? head : megabyte);
        sent += 1;
        if (sent > 100) controller.close();
      },
    });
    const expected = 'line 2: expected at most 4194304 bytes';
    await refusedWith(body, 413, 'TooLarge', expected, { duplex: 'half' } as RequestInit);
    expect(sent).toBeLessThan(60);
  });

  it('T7 metadata of the session that are too large', async () => {
    const changed = structuredClone(lines);
    set(0, { metadata: { note: 'x'.repeat(16 * 1024) } })(changed);
    await refusedWith(joined(changed), 413, 'TooLarge', 'metadata: expected at most 16384 bytes');
  });

  it('T7 a body of which the rest is not read', async () => {
    let isOver = false;
    async function* body() {
      try {
        for (;;) yield Buffer.from('{}\n');
      } finally {
        isOver = true;
      }
    }
    await expect(host.client.importSession('ada', body())).rejects.toMatchObject({ code: 'InvalidLine' });
    expect(isOver).toBe(true);
  });

  const megabytes = (n: number) => ' '.repeat(n * 1024 ** 2);

  it('T7 a body over the limit', async () => {
    const [session, message] = lines as [Line, Line];
    const large = (n: number) => ({
      ...message,
      id: `m${n}`,
      position: (n + 1) * 1000,
      metadata: { note: megabytes(3) },
    });
    const all = [{ ...session, messages: 20 }, ...Array.from({ length: 20 }, (_, n) => large(n))];
    const expected = `body: expected at most ${MAX_IMPORT} bytes (PERDURE_MAX_IMPORT)`;
    await refusedWith(joined(all), 413, 'TooLarge', expected);
  });

  it('T7 a message with parts of more than 48 MiB, and a part with data of more than 33', async () => {
    const [session, message, part] = lines as [Line, Line, Line];
    const large = (n: number) => ({ ...part, id: `p${n}`, index: n, data: { type: 'text', text: megabytes(3) } });
    const all = [{ ...session, messages: 1 }, message, ...Array.from({ length: 16 }, (_, n) => large(n))];
    await refusedWith(joined(all), 413, 'TooLarge', 'line 18: expected at most 50331648 bytes in a message');
    expect((await imported(ada, joined(all.slice(0, -1)))).status).toBe(201);
    const pieces = Array.from({ length: 12 }, () => ({ kind: 'content', data: megabytes(3) }));
    const long = [session, message, { ...part, data: null }, ...pieces];
    await refusedWith(
      joined(long),
      413,
      'TooLarge',
      'line 15: expected at most 34603008 characters in the data of line 3',
    );
  });

  it('T7 what Postgres refuses after all', async () => {
    await db.query(
      `CREATE FUNCTION refuse_part() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE numeric_value_out_of_range; END $$;
       CREATE TRIGGER refuse_part BEFORE INSERT ON chat_parts FOR EACH ROW WHEN (NEW.id = 'huge') EXECUTE FUNCTION refuse_part()`,
    );
    try {
      const changed = structuredClone(lines);
      set(2, { id: 'huge' })(changed);
      const expected = `lines 1 to ${lines.length}: expected values that Postgres can store`;
      await refusedWith(joined(changed), 400, 'InvalidLine', expected);
    } finally {
      await db.query('DROP FUNCTION refuse_part CASCADE');
    }
  });

  it('T7 Q2 what the disk of the host cannot hold, as a condition that passes', async () => {
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = '/dev/null';
    try {
      await refusedWith(joined(lines), 503, 'Unavailable', 'the disk of the host may be full');
      const { id } = await conversation(db, 'one');
      expect(await ada.get(`/api/sessions/${id}/export`)).toMatchObject({ status: 503, body: { code: 'Unavailable' } });
    } finally {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
    }
  });

  it('T7 a compressed body', async () => {
    await refusedWith('x', 400, 'BadRequest', 'Content-Encoding', { headers: { 'content-encoding': 'gzip' } });
  });
});
