// What the functions on the hot path read must not grow with the session or with the table.
import pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { eraseSession, someSessionsOf } from '../../store/erasure.ts';
import { readTurns } from '../../store/status.ts';
import { claimDueRuns } from '../../store/sweep.ts';
import { freshRows, rows, Session, textPart } from './session.ts';

const TURNS = 25_000;
const OTHERS = 3_000;
const TURNS_OF_OTHERS = 25;
const db = await freshRows();

let long: Session;
let short: Session;

/** Inserts finished turns into sessions, as the functions would have stored them. */
async function insertPastTurns(
  sessions: readonly Session[],
  turns: number,
  { rowsOf = db, from = 1 } = {},
): Promise<void> {
  const ids = sessions.map(({ id }) => id);
  const past = `FROM unnest($1::text[]) AS s CROSS JOIN generate_series($2::integer, $3::integer) AS n`;
  // Without the product's time-outs: on a busy machine these inserts take longer.
  const patient = new pg.Client({ connectionString: rowsOf.options.connectionString! });
  await patient.connect();
  const insert = async (into: string, values: string) =>
    patient.query(`INSERT INTO ${into} SELECT ${values} ${past}`, [ids, from, from + turns - 1]);
  await insert('chat_messages (session_id, id, position, role)', `s, 'u' || n, n * 1000, 'user'`);
  await insert('chat_messages (session_id, id, position, role)', `s, 'a' || n, n * 1000 + 1, 'assistant'`);
  await insert(
    'chat_parts (session_id, id, message_id, index, type, data, tool_call_id, tool_state)',
    `s, 'p' || n, 'a' || n, 0, 'tool-x', '{"type": "tool-x"}', 'call' || n, 'output-available'`,
  );
  await insert(
    'chat_parts (session_id, id, message_id, index, type, data)',
    `s, 'q' || n, 'u' || n, 0, 'text', '{"type": "text"}'`,
  );
  await insert(
    'chat_runs (session_id, seq, message_id, answer_id, state, finished_at)',
    `s, n, 'u' || n, 'a' || n, 'finished', now()`,
  );
  await insert('session_events (session_id, seq, kind, actor, command_id)', `s, n + 1, 'abort', 'user', 'past:' || n`);
  await patient.end();
}

beforeAll(async () => {
  [long, short] = await Promise.all([Session.at('chatting', db), Session.at('chatting', db)]);
  await db.query(`SELECT open_session('ses_' || lpad(to_hex(n), 12, '0') || repeat('x', 14), 'u' || n, 'a', NULL, NULL, '{}', NULL)
                    FROM generate_series(1, ${OTHERS}) AS n`);
  const others = await rows(db, `SELECT session_id AS id FROM sessions WHERE user_id <> 'ada'`);
  await insertPastTurns([long], TURNS);
  await insertPastTurns([short], 2);
  await insertPastTurns(others as unknown as Session[], TURNS_OF_OTHERS);
  await db.query('ANALYZE');
}, 120_000);

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
  await measure('claim_step', () => session.claim(run, fence(1)));
  const part = textPart(0, '');
  await measure('append_stream', () =>
    session.append(run, fence(1), [part], [{ part_id: part.id, start: 0, text: 'hi' }]),
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
  await measure('cmd_close', () => session.close(true));
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

it('Q2 the blocks that a turn reads do not grow with the session', { timeout: 60_000 }, async () => {
  const [few, many] = [await costs(short), await costs(long)];
  expect(few.scanned).toEqual([]);
  expect(many.scanned).toEqual([]);
  expect(Math.min(...Object.values(few.blocks))).toBeGreaterThan(0);
  expect(grown(few.blocks, many.blocks)).toEqual({});
});

it('Q2 nor do they with plans that were made while the tables were empty', { timeout: 60_000 }, async () => {
  const fresh = await freshRows();
  // Without autovacuum, which could analyze the tables meanwhile and cause new plans.
  for (const table of GROWING) await fresh.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`);
  const session = await Session.at('chatting', fresh);
  const client = await fresh.connect();
  try {
    const few = await costsOn(client, session);
    await insertPastTurns([session], 5_000, { rowsOf: fresh, from: 1_000 });
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
    await client.query('UPDATE chat_runs SET check_at = now() WHERE session_id = $1', [sleeper.id]);
    const before = await blocksRead(client);
    const found = await claimDueRuns(client, 100);
    expect((await blocksRead(client)) - before).toBeLessThan(300);
    expect(found.map((run) => run.session_id)).toContain(sleeper.id);
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

it('Q2 a new reader of a session does not read its past turns', async () => {
  const client = await db.connect();
  try {
    for (let plans = 0; plans < 8; plans += 1) await readTurns(client, long.id, 0);
    const before = await blocksRead(client);
    expect(await readTurns(client, long.id, 0)).not.toHaveLength(0);
    expect((await blocksRead(client)) - before).toBeLessThan(50);
  } finally {
    client.release();
  }
});
