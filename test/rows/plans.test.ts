// What the functions on the hot path read must not grow with the session or with the table.
import type pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { readAnswers } from '../../store/answers.ts';
import { eraseSession, eraseUserRest, someSessionsOf } from '../../store/erasure.ts';
import { claimChangedInitiatives, endInitiativeChecks } from '../../store/initiative-workflows.ts';
import { readFollowed } from '../../store/status.ts';
import { claimDueRuns } from '../../store/sweep.ts';
import { insertPast, patiently } from '../../tools/test-kit/long-past.ts';
import { measuredRows, rows, Session, textPart } from './session.ts';

const TURNS = 25_000;
const OTHERS = 3_000;
const TURNS_OF_OTHERS = 25;
const db = await measuredRows();

let long: Session;
let short: Session;

/** Finished turns with a tool call and an event each. */
const insertTurns = (rowsOf: pg.Pool, sessions: readonly Session[], from: number, to: number) => {
  const ids = sessions.map(({ id }) => id);
  return patiently(rowsOf, (client) => insertPast(client, ids, { from, to, answers: 'tool' }));
};

beforeAll(async () => {
  [long, short] = await Promise.all([Session.at('chatting', db), Session.at('chatting', db)]);
  await db.query(`SELECT open_session('ses_' || lpad(to_hex(n), 12, '0') || repeat('x', 14), 'u' || n, 'a', NULL, NULL, '{}', NULL)
                    FROM generate_series(1, ${OTHERS}) AS n`);
  const others = await rows(db, `SELECT session_id AS id FROM sessions WHERE user_id <> 'ada'`);
  await insertTurns(db, [long], 1, TURNS);
  await insertTurns(db, [short], 1, 2);
  await insertTurns(db, others as unknown as Session[], 1, TURNS_OF_OTHERS);
  await db.query('ANALYZE');
});

const GROWING = [
  'sessions',
  'chat_sessions',
  'chat_messages',
  'chat_parts',
  'chat_runs',
  'session_events',
  'part_deltas',
];

async function seqScans(client: pg.ClientBase): Promise<Record<string, number>> {
  const sql = 'SELECT relname, seq_scan::integer FROM pg_stat_xact_user_tables WHERE relname = ANY($1)';
  return Object.fromEntries(
    (await rows(client, sql, [GROWING])).map((row) => [row['relname'], row['seq_scan']]),
  ) as Record<string, number>;
}

/** Blocks that a connection has read so far; reported outside of transactions only. */
async function blocksRead(client: pg.ClientBase): Promise<number> {
  await client.query('SELECT pg_stat_force_next_flush()');
  const sql = 'SELECT sum(reads + hits)::integer AS blocks FROM pg_stat_get_backend_io(pg_backend_pid())';
  return (await rows(client, sql))[0]!['blocks'] as number;
}

/** A turn with a tool, an abort and everything else; each call is measured under its name. */
async function turn(
  session: Session,
  epoch: number,
  measure: (name: string, action: () => Promise<unknown>) => Promise<void>,
) {
  const fence = (ordinal: number): Fence => [epoch, ordinal, 1];
  const message = newId('msg');
  const callId = newId('call');
  let run = 0;
  await measure('load_session', () => session.load());
  await measure(
    'accept_message',
    async () => (run = (await session.say('hello', { id: message }))['run_seq'] as number),
  );
  await measure('a repeat', () => session.say('hello', { id: message }));
  // What the model sees grows with the conversation.
  await measure('claim_without_view', () => session.claimWithoutView(run, fence(1)));
  const part = textPart(0, '');
  await measure('append_stream', () =>
    session.append(run, fence(1), [part], [{ part_id: part.id, start: 0, text: 'hi' }]),
  );
  await measure('append_streams', () =>
    session.appendShared(run, fence(1), [], [{ part_id: part.id, start: 2, text: ' there' }]),
  );
  const cursor = { index: 0, parts: [{ id: part.id, units: 1 }] };
  await measure('read_answers', () =>
    readAnswers(session.db, [{ userId: 'ada', sessionId: session.id, runSeq: run, cursor }], { maxBytes: 10_000 }),
  );
  const call = { ...textPart(1), tool_call_id: callId, tool_state: 'input-available', settled: true };
  await measure('settle_step', () =>
    session.settleStep(run, fence(1), { parts: [{ ...part, settled: true }, call], nextIndex: 2 }),
  );
  await measure('begin_tool', () =>
    session.beginTool(run, fence(2), callId, { event: 'start_build', at: 'start', project: null }),
  );
  await measure('finish_tool', () => session.finishTool(run, fence(2), callId));
  await measure('raise_event', () => session.raise('publish'));
  await measure('cmd_cancel', () => session.cancel());
  await measure('cmd_abort', () => session.abort());
  await measure('settle_run', () => session.settleRun(run, 'aborted'));
  await measure('cmd_cancel_queued', async () => session.cancelQueued(message));
  await measure('cmd_rewind', () => session.rewind(message, { abort: true }));
  await measure('cmd_unrewind', () => session.unrewind());
  await measure('edit_message', () => session.edit(message, 'another one'));
  await measure('regenerate_answer', () => session.regenerate(message));
  await measure('cmd_close', () => session.close(true));
  await measure('cmd_branch', () => session.apply('branch', { from_message_id: message, tail_turns: 1 }));
}

/** After this many turns every plan is generic. */
const TURNS_TO_GENERIC = 8;

/** Blocks read by each call of a turn, with generic plans, and the tables that it scanned sequentially. */
async function costs(session: Session): Promise<{ blocks: Record<string, number>; scanned: string[] }> {
  const client = await db.connect();
  try {
    return await costsOn(client, session);
  } finally {
    client.release();
  }
}

/** The same on a connection; `firstEpoch` is greater than the session's epoch. */
async function costsOn(client: pg.PoolClient, session: Session, firstEpoch = 1) {
  const blocks: Record<string, number> = {};
  const scanned: string[] = [];
  for (let epoch = firstEpoch; epoch < firstEpoch + TURNS_TO_GENERIC; epoch += 1) {
    await turn(session.through(client), epoch, async (name, action) => {
      const blocksBefore = await blocksRead(client);
      await client.query('BEGIN');
      const scansBefore = await seqScans(client);
      await action();
      const scansAfter = await seqScans(client);
      await client.query('COMMIT');
      blocks[name] = (await blocksRead(client)) - blocksBefore;
      for (const table of GROWING) {
        if (scansAfter[table] !== scansBefore[table]) scanned.push(`${name} of ${table}`);
      }
    });
  }
  return { blocks, scanned };
}

/** The calls that read more with a long past. */
function grown(few: Record<string, number>, many: Record<string, number>): Record<string, readonly number[]> {
  const pairs = Object.keys(few).map((name) => [name, [few[name]!, many[name]!]] as const);
  return Object.fromEntries(pairs.filter(([, [before, after]]) => after > 1.5 * before + 20));
}

it('Q2 the blocks that a turn reads do not grow with the session', async () => {
  const [few, many] = [await costs(short), await costs(long)];
  expect(few.scanned).toEqual([]);
  expect(many.scanned).toEqual([]);
  expect(Math.min(...Object.values(few.blocks))).toBeGreaterThan(0);
  expect(grown(few.blocks, many.blocks)).toEqual({});
});

it('Q2 nor do they with plans that were made while the tables were empty', async () => {
  const fresh = await measuredRows();
  const session = await Session.at('chatting', fresh);
  const client = await fresh.connect();
  try {
    const few = await costsOn(client, session);
    await insertTurns(fresh, [session], 1_000, 5_999);
    const many = await costsOn(client, session, 1 + TURNS_TO_GENERIC);
    expect(grown(few.blocks, many.blocks)).toEqual({});
  } finally {
    client.release();
  }
});

const HOT: Record<string, [sql: string, params: (session: Session) => unknown[]]> = {
  'the next position': ['SELECT max(position) FROM chat_messages WHERE session_id = $1', ({ id }) => [id]],
  'the next run': ['SELECT max(seq) FROM chat_runs WHERE session_id = $1', ({ id }) => [id]],
  'the next event': ['SELECT max(seq) FROM session_events WHERE session_id = $1', ({ id }) => [id]],
  'the queue': [
    `SELECT count(*) FROM chat_runs WHERE session_id = $1 AND state IN ('queued', 'running', 'waiting')`,
    ({ id }) => [id],
  ],
  'the parts of a message': [
    'SELECT * FROM chat_parts_live WHERE session_id = $1 AND message_id = $2 ORDER BY index',
    ({ id }) => [id, 'a1'],
  ],
  'a receipt': [
    'SELECT data FROM session_events WHERE session_id = $1 AND command_id = $2',
    ({ id }) => [id, 'past:1'],
  ],
  'a tool call': ['SELECT * FROM chat_parts WHERE session_id = $1 AND tool_call_id = $2', ({ id }) => [id, 'call1']],
};

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
}

it.each(Object.entries(HOT))('Q2 %s is found through an index', async (_name, [sql, params]) => {
  const [explained] = await rows(db, `EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, params(long));
  const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)];
  const plan = nodes((explained!['QUERY PLAN'] as { Plan: Plan }[])[0]!.Plan);
  // There are no deltas here, so a plan for this one query may search for them in any way.
  const scanned = plan.filter((node) => node['Node Type'] === 'Seq Scan' && node['Relation Name'] !== 'part_deltas');
  expect(scanned).toEqual([]);
  expect(
    plan.map((node) => node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)).filter((read) => read > 2),
  ).toEqual([]);
});

it('Q2 the sweeper reads open runs only', async () => {
  const client = await db.connect();
  try {
    const sleeper = (await Session.at('chatting', db)).through(client);
    await sleeper.say('hello?');
    // The first call of a connection also reads the catalog.
    await claimDueRuns(client, 100);
    await client.query('UPDATE chat_runs SET check_at = now() WHERE session_id = $1', [sleeper.id]);
    const before = await blocksRead(client);
    const found = await claimDueRuns(client, 100);
    expect((await blocksRead(client)) - before).toBeLessThan(300);
    expect(found.map((run) => run.session_id)).toContain(sleeper.id);
  } finally {
    client.release();
  }
});

it('Q2 I5 the sweeper reads initiatives only whose check is due', async () => {
  const client = await db.connect();
  try {
    await client.query(`INSERT INTO initiatives (initiative_id, user_id, title, check_at)
                        SELECT 'ini_' || n, 'planner', 't', CASE WHEN n % 2 = 0 THEN now() + interval '1 hour' END
                          FROM generate_series(1, 20000) AS n`);
    const claim = () => claimChangedInitiatives(client, 50);
    for (let plans = 0; plans < 8; plans += 1) await claim();
    const reads: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const before = await blocksRead(client);
      expect(await claim()).toEqual([]);
      reads.push((await blocksRead(client)) - before);
    }
    // All rows are in some 300 blocks. Once the catalog may be read again, after an autovacuum.
    expect(Math.min(...reads), reads.join()).toBeLessThan(20);
    // The first call of a connection reads the catalog.
    await endInitiativeChecks(client, []);
    const ends: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      await client.query(`UPDATE initiatives SET check_at = now() WHERE initiative_id = 'ini_1'`);
      const due = await claim();
      expect(due).toMatchObject([{ initiative_id: 'ini_1' }]);
      const before = await blocksRead(client);
      await endInitiativeChecks(client, due);
      ends.push((await blocksRead(client)) - before);
    }
    expect(Math.min(...ends), ends.join()).toBeLessThan(40);
  } finally {
    client.release();
  }
});

it('T9 erasing all sessions of a user reads no others for each', async () => {
  const client = await db.connect();
  try {
    await client.query(`SELECT open_session('ses_' || lpad(to_hex(n), 12, '0') || repeat('y', 14), 'hoarder', 'a', NULL, NULL, '{}', NULL)
                          FROM generate_series(1, 2000) AS n`);
    const ids = await someSessionsOf(client, 'hoarder');
    const erase = (sessionId: string) =>
      eraseSession(client, { sessionId, userId: 'hoarder', home: 'h', wholeUser: true });
    for (const id of ids.splice(0, 10)) await erase(id);
    const before = await blocksRead(client);
    for (const id of ids) await erase(id);
    expect(((await blocksRead(client)) - before) / ids.length).toBeLessThan(300);
  } finally {
    client.release();
  }
});

it('T9 erasing a user reads no scope events of others', async () => {
  const client = await db.connect();
  try {
    await client.query(`INSERT INTO scope_events SELECT nextval('state_versions'), 'a', CASE WHEN n % 2 = 0 THEN 'u' || n END, now(), 'u' || n, '{}'
                          FROM generate_series(1, 20000) AS n`);
    await client.query('ANALYZE scope_events');
    const before = await blocksRead(client);
    for (let n = 1; n <= 20; n += 1) await eraseUserRest(client, `u${n}`, 'h');
    expect(((await blocksRead(client)) - before) / 20).toBeLessThan(100);
  } finally {
    client.release();
  }
});

it('T6 T9 what a user has in the queue of the search is found, and erased, without reading that of others', async () => {
  const client = await db.connect();
  try {
    await client.query(`INSERT INTO search_queue (user_id, session_id, from_position, to_position)
                        SELECT 'queued' || n % 1000, 'ses_' || lpad(to_hex(n % 5000), 12, '0') || repeat('z', 14), 0, 1
                          FROM generate_series(1, 20000) AS n`);
    await client.query(`SELECT open_session('ses_' || lpad(to_hex(n), 12, '0') || repeat('z', 14), 'queued7', 'a', NULL, NULL, '{}', NULL)
                          FROM unnest(ARRAY[7, 1007]) AS n`);
    await client.query('ANALYZE search_queue');
    const index = (user: string) => client.query('SELECT index_messages($1, 10)', [user]);
    const erase = (n: number) => {
      const sessionId = `ses_${n.toString(16).padStart(12, '0')}${'z'.repeat(14)}`;
      return eraseSession(client, { sessionId, userId: 'queued7', home: 'h', wholeUser: true });
    };
    const left = () =>
      rows(client, `SELECT DISTINCT session_id FROM search_queue WHERE user_id = 'queued7' ORDER BY 1`);
    for (let n = 0; n < 8; n += 1) await index(`queued${n + 10}`);
    const before = await blocksRead(client);
    await index('queued30');
    // Ten times all blocks of the queue would be 2,000.
    expect((await blocksRead(client)) - before).toBeLessThan(500);
    expect(await left()).toHaveLength(5);
    await erase(7);
    const beforeErasure = await blocksRead(client);
    await erase(1007);
    expect((await blocksRead(client)) - beforeErasure).toBeLessThan(400);
    expect(await left()).toHaveLength(3);
  } finally {
    client.release();
  }
});

it('Q2 a new reader of a session does not read its past turns, and each of many sessions is found by its key', async () => {
  const client = await db.connect();
  const follow = (sessions: Session[], fromSeq: number) =>
    readFollowed(
      client,
      sessions.map(({ id, user }) => ({ sessionId: id, userId: user, fromSeq })),
    );
  try {
    for (let plans = 0; plans < 8; plans += 1) await follow([long], 0);
    for (const fromSeq of [0, TURNS]) {
      const before = await blocksRead(client);
      const [first, second] = await follow([long, short, long], fromSeq);
      expect(first!()?.turns).not.toHaveLength(0);
      expect(second!()?.session.phase).toBe('chatting');
      expect((await blocksRead(client)) - before).toBeLessThan(150);
    }
  } finally {
    client.release();
  }
});
