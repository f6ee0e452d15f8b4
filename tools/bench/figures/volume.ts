import type pg from 'pg';
import { newId } from '../../../domain/ids.ts';
import { applyCommand } from '../../../store/commands.ts';
import { readMessages } from '../../../store/messages.ts';
import { searchMessages } from '../../../store/search.ts';
import { compactPast, indexPast, insertPast, lengthenAnswers } from '../../test-kit/long-past.ts';
import type { Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';
import { withWorld } from '../world.ts';

const MESSAGES = 1_000_000;
const OF_LONG_SESSION = 10_000;
/** Of a conversation that is gone back over. */
const TURNS_BACK = 500;
/** The turns among them that are not summarized, and the number of the last one that is. */
const TAIL = 25;
const SUMMARIZED = TURNS_BACK - TAIL;
const WINDOW = 100;
const USERS = 100;
const SESSIONS_OF_USER = 50;
const TURNS = MESSAGES / 2 / USERS / SESSIONS_OF_USER;
const TIMES = 20;
const MOST_MS = 600_000;

/** The nth of about 20,000 words; low numbers are frequent, as in a language. */
const WORD = `'w' || (20000 * power(random(), 3))::integer`;
const TEXT = `(SELECT string_agg(${WORD}, ' ') FROM generate_series(1, 25) WHERE n > 0)`;

/** Database times with a session of 10,000 messages in a database of 1,000,000. */
export const volume: Figure = {
  name: 'volume',
  onRequest: { withinMs: MOST_MS },
  measure: (bench) =>
    withWorld(bench, { name: 'volume', workers: 0 }, async ({ db }) => {
      const client = await db.connect();
      try {
        await client.query(`SET statement_timeout = 0`);
        bench.say(`storing ${MESSAGES} messages`);
        await fill(client);
        const long = await session(client, 'long', OF_LONG_SESSION / 2);
        const hiding = await session(client, 'long', WINDOW / 2, OF_LONG_SESSION / 2);
        const plain = await session(client, 'long', WINDOW / 2);
        const visible = await conversation(client);
        const once = await conversation(client, SUMMARIZED);
        const often = await conversation(client, TAIL);
        await atLeisure(client, 'VACUUM ANALYZE');
        await client.query('SET statement_timeout = 5000');
        return [
          ...(await windows(client, hiding, plain)),
          ...(await searches(client)),
          ...(await goingBack(client, visible, { to: 1, branchAt: TURNS_BACK, over: '1,000 messages' })),
          ...(await goingBack(client, once, { to: SUMMARIZED, over: '1,000 messages, 950 summarized at once' })),
          ...(await goingBack(client, often, { to: SUMMARIZED, over: '1,000 messages, 950 summarized by 50' })),
          await timed('hydrate of the last 50 of 10,000 messages', 10, () =>
            readMessages(client, long, { limit: 50, hidden: false }),
          ),
        ];
      } finally {
        client.release();
      }
    }),
};

/** Everybody's sessions, with the indexes that are slow to extend made at the end. */
async function fill(db: pg.PoolClient): Promise<void> {
  const [words] = (await db.query<{ sql: string }>(`SELECT pg_get_indexdef('message_search_words'::regclass) AS sql`))
    .rows;
  await db.query('DROP INDEX message_search_words');
  for (let user = 1; user <= USERS; user += 1) {
    for (let n = 1; n <= SESSIONS_OF_USER; n += 1) await session(db, `user-${user}`, TURNS);
  }
  await atLeisure(db, words!.sql);
}

/** A statement that may take longer than those of a pool. */
async function atLeisure(db: pg.PoolClient, text: string): Promise<void> {
  await db.query({ text, query_timeout: MOST_MS } as pg.QueryConfig);
}

/** A session with finished turns, after `hidden` others that a compaction has hidden. */
async function session(db: pg.PoolClient, user: string, turns: number, hidden = 0): Promise<string> {
  const id = newId('ses');
  await db.query(`SELECT open_session($1, $2, 'site-builder', NULL, NULL, '{}', NULL)`, [id, user]);
  await insertPast(db, [id], { to: turns + hidden, hidden, text: () => TEXT });
  await indexPast(db, id, user);
  return id;
}

/** 1,000 messages with 2,000 parts, with a compaction after each `every` turns. */
async function conversation(db: pg.PoolClient, every?: number): Promise<string> {
  const id = await session(db, 'long', TURNS_BACK);
  await lengthenAnswers(db, id);
  if (every !== undefined) await compactPast(db, id, { turns: TURNS_BACK, every, tail: TAIL });
  return id;
}

/** What a step loads of a conversation. */
const VIEW = `SELECT model_view($1, $2, $3, 0), last_reported(chat, $2) FROM chat_sessions chat WHERE session_id = $1`;

async function windows(db: pg.PoolClient, hiding: string, plain: string): Promise<Result[]> {
  const view = (id: string) => async () => {
    const last = id === hiding ? (OF_LONG_SESSION + WINDOW) / 2 : WINDOW / 2;
    await db.query(VIEW, [id, last * 1_000, 'none']);
  };
  const [behind, alone] = await inTurn(view(hiding), view(plain));
  return [
    {
      name: 'load of 100 visible messages after 10,000 hidden ones',
      value: median(behind),
      unit: 'ms',
      detail: spread(behind),
    },
    {
      name: 'the same, over the same without them',
      value: median(behind) / median(alone),
      unit: '×',
      target: { atMost: 1.2 },
      detail: `without: ${spread(alone)}`,
    },
  ];
}

async function searches(db: pg.PoolClient): Promise<Result[]> {
  const queries = ['w3', 'w15000', 'w3 w15', 'w40 w700', '"w1 w2"', 'w7 -w1', 'w9000 or w12000', 'w100'];
  const times: number[] = [];
  for (let n = 0; n < 80; n += 1) {
    const from = performance.now();
    await searchMessages(db, n % 4 === 0 ? 'long' : `user-${1 + (n % USERS)}`, queries[n % queries.length]!, 20);
    times.push(performance.now() - from);
  }
  const name = `search over ${MESSAGES.toLocaleString('en')} messages, newest 20`;
  return [{ name, value: median(times), unit: 'ms', target: { atMost: 50 }, detail: spread(times) }];
}

/** Rewinds to a turn and back, and branches at the answer of a turn. */
async function goingBack(
  db: pg.PoolClient,
  id: string,
  { to, branchAt = to, over }: { to: number; branchAt?: number; over: string },
): Promise<Result[]> {
  const command = async (name: 'rewind' | 'unrewind' | 'branch', args: object) => {
    const request = { command: name, ...args } as Parameters<typeof applyCommand>[1]['request'];
    const { outcome } = await applyCommand(db, {
      session_id: id,
      actor: 'user',
      command_id: `${name}:${newId('cmd')}`,
      request,
    });
    if (!outcome.ok) throw new Error(`${name}: ${outcome.code}`);
  };
  const [rewinds, unrewinds, branches] = await inTurn(
    () => command('rewind', { message_id: `u${to}` }),
    () => command('unrewind', {}),
    () => command('branch', { from_message_id: `a${branchAt}` }),
  );
  const row = (name: string, times: number[], atMost: number): Result => ({
    name: `${name} of ${over}`,
    value: median(times),
    unit: 'ms',
    target: { atMost },
    detail: spread(times),
  });
  return [row('rewind', rewinds, 50), row('un-rewind', unrewinds, 50), row('branch', branches, 300)];
}

async function timed(name: string, atMost: number, action: () => Promise<unknown>): Promise<Result> {
  const [times] = await inTurn(action);
  return { name, value: median(times), unit: 'ms', target: { atMost }, detail: spread(times) };
}

/** How long actions take, in milliseconds, `TIMES` times. What is compared is measured in turn: the machine's load changes. */
async function inTurn<A extends (() => Promise<unknown>)[]>(...actions: A): Promise<{ [I in keyof A]: number[] }> {
  for (const action of actions) await action();
  const times = actions.map((): number[] => []);
  for (let n = 0; n < TIMES; n += 1) {
    for (const [at, action] of actions.entries()) {
      const from = performance.now();
      await action();
      times[at]!.push(performance.now() - from);
    }
  }
  return times as { [I in keyof A]: number[] };
}
