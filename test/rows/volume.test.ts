// What reading, searching and going back cost in a long session, in blocks of Postgres: times depend on the machine.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { readMessages } from '../../store/messages.ts';
import { searchMessages } from '../../store/search.ts';
import { exportedLines } from '../../store/transfer.ts';
import { compactPast, indexPast, insertPast, lengthenAnswers, patiently } from '../../tools/test-kit/long-past.ts';
import { measuredRows, rows, Session } from './session.ts';

const db = await measuredRows();

/** A session with finished turns, after `hidden` others that a compaction has hidden. */
async function past(user: string, turns: number, hidden = 0): Promise<Session> {
  const session = await Session.at('chatting', db, { user });
  const text = (role: string) => `'${role === 'user' ? 'common' : 'answer'} word' || n || ' ' || md5(n::text)`;
  await patiently(db, async (client) => {
    await insertPast(client, [session.id], { to: turns + hidden, hidden, text });
    await indexPast(client, session.id, user);
  });
  return session;
}

let plain: Session;
let hiding: Session;
let thousand: Session;
let visible: Session;
let summarized: Session;
beforeAll(async () => {
  plain = await past('ada', 50);
  hiding = await past('ada', 50, 5_000);
  thousand = await past('ada', 500);
  visible = await past('fay', 5_000);
  summarized = await past('gus', 500);
  await patiently(db, async (client) => {
    for (const { id } of [thousand, summarized]) await lengthenAnswers(client, id);
    await compactPast(client, summarized.id, { turns: 500, every: 25, tail: 25 });
  });
  for (const user of ['bea', 'cyd', 'dan', 'eva']) await past(user, 2_500);
  await db.query('VACUUM ANALYZE');
});

/** Tables with many rows here; the others fit into a few blocks. */
const LARGE = ['chat_messages', 'chat_parts', 'chat_runs', 'message_search'];

const VISIBLE = 'chat_messages_visible';
const HIDDEN = 'chat_messages_hidden';
const PARTS = 'chat_parts_session_id_message_id_index_key';
const WORDS = 'message_search_words';

interface Cost {
  blocks: number;
  scanned: string[];
  used: string[];
}

/** Blocks that an action reads, tables that it scans sequentially, and indexes that it uses, once its plans have been made. */
async function costOf(action: (client: pg.PoolClient) => Promise<unknown>): Promise<Cost> {
  const client = await db.connect();
  const blocks = async () => {
    await client.query('SELECT pg_stat_force_next_flush()');
    const sql = 'SELECT sum(reads + hits)::integer AS blocks FROM pg_stat_get_backend_io(pg_backend_pid())';
    return (await rows(client, sql))[0]!['blocks'] as number;
  };
  const sql = 'SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0 AND relname = ANY ($1)';
  const scans = () => rows(client, sql, [LARGE]);
  const uses = async () => {
    const counts = 'SELECT indexrelname, idx_scan::integer FROM pg_stat_user_indexes WHERE relname = ANY ($1)';
    return new Map(
      (await rows(client, counts, [LARGE])).map((row) => [row['indexrelname'] as string, row['idx_scan']]),
    );
  };
  try {
    for (let n = 0; n < 7; n += 1) await action(client);
    // What these calls have left behind would be read, too.
    await db.query(`VACUUM ${LARGE.join(', ')}`);
    const before = await blocks();
    const usedBefore = await uses();
    await client.query('BEGIN');
    await action(client);
    const scanned = (await scans()).map((row) => row['relname'] as string);
    await client.query('COMMIT');
    const read = (await blocks()) - before;
    const used = [...(await uses())].flatMap(([name, count]) => (count === usedBefore.get(name) ? [] : [name]));
    return { blocks: read, scanned, used };
  } finally {
    client.release();
  }
}

describe('a long session', () => {
  it('X5 what the model sees is loaded without reading what is hidden', async () => {
    const view = (session: Session, last: number) => (client: pg.PoolClient) =>
      client.query(
        'SELECT model_view($1, $2, $3, 0), last_reported(chat, $2) FROM chat_sessions chat WHERE session_id = $1',
        [session.id, last * 1_000, 'none'],
      );
    const [alone, behind] = [await costOf(view(plain, 50)), await costOf(view(hiding, 5_050))];
    expect(behind.scanned).toEqual([]);
    expect(behind.used).toEqual(expect.arrayContaining([VISIBLE, PARTS]));
    expect(alone.blocks).toBeGreaterThan(50);
    expect(behind.blocks / alone.blocks).toBeLessThan(1.2);
  });

  it('T6 H2 the last 50 of 10,000 visible messages are read from an index that has them in order', async () => {
    const { items } = await readMessages(db, visible.id, { limit: 50, hidden: false });
    expect(items.at(0)?.id).toBe('u4976');
    expect(items).toHaveLength(50);
    const read = (session: Session) => (client: pg.PoolClient) =>
      readMessages(client, session.id, { limit: 50, hidden: false });
    const [few, many] = [await costOf(read(plain)), await costOf(read(visible))];
    expect(many.scanned).toEqual([]);
    expect(many.used).toEqual(expect.arrayContaining([VISIBLE, PARTS]));
    expect(many.blocks / few.blocks).toBeLessThan(1.5);
  });

  it('T6 H2 the last page is read without reading what is hidden, and hidden ones on request', async () => {
    const page = (session: Session, hidden: boolean, before?: number) => (client: pg.PoolClient) =>
      readMessages(client, session.id, { limit: 50, hidden, before });
    for (const [hidden, before] of [[false], [true], [false, 5_001_000]] as const) {
      const cost = await costOf(page(hiding, hidden, before));
      expect(cost.scanned).toEqual([]);
      expect(cost.blocks).toBeLessThan(600);
    }
    expect((await readMessages(db, hiding.id, { limit: 50, hidden: false, before: 5_001_000 })).items).toEqual([]);
    expect((await readMessages(db, hiding.id, { limit: 50, hidden: true, before: 5_001_000 })).items).toHaveLength(50);
  });

  it('T7 a read of an export reads little more than the lines that it returns', async () => {
    const session = await Session.at('chatting', db);
    const add = (from: number, to: number) =>
      rows(
        db,
        `WITH messages AS (
           INSERT INTO chat_messages (session_id, id, position, role) SELECT $1, 'm' || n, n * 1000, 'user'
             FROM generate_series($2::integer, $3::integer) AS n RETURNING id)
         INSERT INTO chat_parts (session_id, id, message_id, index, type, data)
         SELECT $1, 'p' || id, id, 0, 'text', jsonb_build_object('type', 'text', 'text', (
                  SELECT string_agg(md5(id || n), '') FROM generate_series(1, 20000) AS n)) FROM messages`,
        [session.id, from, to],
      );
    const lines: unknown[] = [];
    const read = (client: pg.Pool | pg.PoolClient) => {
      lines.length = 0;
      const from = { after: { at: 0, part: -1 }, last: 100_000 };
      return exportedLines(client, session.id, from, (line) => void lines.push(JSON.parse(line)));
    };
    await add(1, 3);
    expect(await read(db)).toMatchObject({ at: 2000, part: 0 });
    expect(lines).toMatchObject([{ position: 1000 }, { index: 0 }, { position: 2000 }, { index: 0 }]);
    const few = await costOf(read);
    await add(4, 25);
    const many = await costOf(read);
    expect(many.scanned).toEqual([]);
    expect(many.blocks / few.blocks).toBeLessThan(1.5);
  });

  it('T6 a search reads neither all messages nor those of others', async () => {
    const search = (query: string) => (client: pg.PoolClient) => searchMessages(client, 'ada', query, 20);
    for (const [query, most] of [
      ['word4321', 1_500],
      ['common', 3_000],
      ['common word77', 1_500],
      ['nowhere', 1_500],
    ] as const) {
      const cost = await costOf(search(query));
      expect({ query, scanned: cost.scanned }).toEqual({ query, scanned: [] });
      expect({ query, used: cost.used }).toEqual({ query, used: expect.arrayContaining([WORDS]) });
      expect({ query, blocks: cost.blocks }).toEqual({ query, blocks: expect.toSatisfy((n: number) => n < most) });
    }
    expect(await searchMessages(db, 'ada', 'word4321', 20)).toHaveLength(2);
  });

  it('X1 X4 a rewind, an un-rewind and a branch of 1,000 messages with 2,000 parts read a bounded number of blocks for each', async () => {
    const rewind = await costOf(async (client) => {
      const session = thousand.through(client);
      expect(await session.rewind('u1')).toMatchObject({ ok: true, hidden: 999 });
      expect(await session.unrewind()).toMatchObject({ ok: true, shown: 999 });
    });
    expect(rewind.scanned).toEqual([]);
    expect(rewind.used).toEqual(expect.arrayContaining([HIDDEN]));
    expect(rewind.blocks / 2_000).toBeLessThan(30);
    const branch = await costOf((client) =>
      thousand.through(client).apply('branch', { from_message_id: 'a500', metadata: null }),
    );
    expect(branch.scanned).toEqual([]);
    expect(branch.used).toEqual(expect.arrayContaining([PARTS, 'chat_runs_of_message']));
    expect(branch.blocks / 3_000).toBeLessThan(15);
  });

  it('X3 X4 a rewind, an un-rewind and a branch over compactions read a bounded number of blocks for each message', async () => {
    const rewind = await costOf(async (client) => {
      const session = summarized.through(client);
      expect(await session.rewind('u475')).toMatchObject({ ok: true, hidden: 51 });
      expect(await session.unrewind()).toMatchObject({ ok: true, shown: 51 });
    });
    expect(rewind.scanned).toEqual([]);
    expect(rewind.used).toEqual(expect.arrayContaining([HIDDEN, VISIBLE]));
    expect(rewind.blocks / 1_000).toBeLessThan(15);
    // A summary and 50 messages; then 1,000 that one compaction has hidden.
    for (const [session, from_message_id, read] of [
      [summarized, 'a475', 1_000],
      [hiding, 'a500', 2_000],
    ] as const) {
      const branch = await costOf((client) => session.through(client).apply('branch', { from_message_id }));
      expect(branch.scanned).toEqual([]);
      expect(branch.used).toEqual(expect.arrayContaining([PARTS, 'chat_runs_of_message']));
      expect(branch.blocks / read).toBeLessThan(20);
    }
  });

  it('X3 a rewind over a compaction to the 1,000th of 10,000 hidden messages reads no more of them', async () => {
    const cost = await costOf(async (client) => {
      const session = hiding.through(client);
      expect(await session.rewind('u500')).toMatchObject({ ok: true });
      expect(await session.unrewind()).toMatchObject({ ok: true });
    });
    expect(cost.scanned).toEqual([]);
    expect(cost.used).toEqual(expect.arrayContaining([HIDDEN]));
    expect(cost.blocks / 2_200).toBeLessThan(50);
  });
});
