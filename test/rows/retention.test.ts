// What a retention sweep reads depends on what it deletes, not on what it keeps.
import type pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { sweepOutputs, sweepRefusals } from '../../store/retention.ts';
import { measuredRows, rows, Session } from './session.ts';

const KEPT = 20_000;
const BATCH = 100;
const HOUR_MS = 3_600_000;
/** Of one batch of 100 rows; reading 20,000 rows takes more than 20,000. */
const MAX_BUFFERS = 2_000;

const db = await measuredRows();

/** Opens sessions. */
async function sessions(count: number): Promise<void> {
  const id = `'ses_' || lpad(to_hex(n), 12, '0') || repeat('x', 14)`;
  const all = `FROM generate_series(1, ${count}) AS n`;
  await db.query(`INSERT INTO sessions (session_id, user_id, phase) SELECT ${id}, 'ada', 'chatting' ${all}`);
  await db.query(`INSERT INTO chat_sessions (session_id, agent) SELECT ${id}, 'a' ${all}`);
  await db.query(`INSERT INTO session_events (session_id, seq, at, kind, actor)
                  SELECT ${id}, 1, now() - interval '1 day', 'opened', 'user' ${all}`);
}

/** Buffers that one call reads, and what it returns. */
async function cost<T>(sweep: (db: pg.Pool) => Promise<T>): Promise<{ buffers: number; result: T }> {
  let buffers = 0;
  const explained = {
    query: async ({ text, values }: { text: string; values: unknown[] }) => {
      const client = await db.connect();
      try {
        await client.query('BEGIN');
        const [row] = await rows(client, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values);
        const [{ Plan: plan }] = row!['QUERY PLAN'] as [{ Plan: Record<string, number> }];
        buffers = plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!;
        await client.query('ROLLBACK');
        return await client.query(text, values);
      } finally {
        client.release();
      }
    },
  } as unknown as pg.Pool;
  return { result: await sweep(explained), buffers };
}

beforeAll(async () => {
  await sessions(KEPT);
  await db.query(`INSERT INTO session_events (session_id, seq, kind, actor)
                  SELECT session_id, 2, 'refused', 'user' FROM sessions`);
  await db.query(`INSERT INTO tool_outputs SELECT session_id, 'call', 'x' FROM sessions`);
  await db.query(`INSERT INTO tool_cache SELECT session_id, 'key', '1', now() + interval '1 day' FROM sessions`);
  await db.query('ANALYZE');
});

it('T9 a sweep does not read what is too young to delete', async () => {
  expect((await cost((explained) => sweepRefusals(explained, HOUR_MS, BATCH))).buffers).toBeLessThan(MAX_BUFFERS);
  expect((await cost((explained) => sweepOutputs(explained, HOUR_MS, BATCH))).buffers).toBeLessThan(MAX_BUFFERS);
});

it('T9 a sweep reads refusals that stay, each the newest event of its session, in batches too', async () => {
  const first = await cost((explained) => sweepRefusals(explained, 0, BATCH));
  expect(first.buffers).toBeLessThan(MAX_BUFFERS);
  const session = await Session.at('chatting', db);
  await session.raise('publish', 'cmd-refused');
  await session.abort('cmd-kept');
  let batches = 0;
  for (let after = first.result; after !== undefined; batches += 1) after = await sweepRefusals(db, 0, 1_000, after);
  expect(batches).toBe(KEPT / 1_000 + 1);
  expect((await session.events()).map((event) => event['command_id'])).toEqual([null, 'cmd-kept']);
});
