// Branches, as an SQL function.
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { createPool } from '../../store/pool.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { patiently } from '../../tools/test-kit/long-past.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { compact } from './compacting.ts';
import { answered, conversation, everything, visible } from './conversation.ts';
import { type Answer, call, freshRows, type Row, rows, Session, textPart, toolPart } from './session.ts';

const db = await freshRows();

async function branch(session: Session, from: string, args: object = {}): Promise<Session> {
  const outcome = await session.apply('branch', { from_message_id: from, ...args });
  expect(outcome).toMatchObject({ ok: true });
  return new Session(db, outcome['session_id'] as string, session.user);
}

/** Makes a session that of a subagent; returns the message. */
async function asChild({ id }: Session, message: string): Promise<string> {
  await db.query('UPDATE chat_sessions SET depth = 1 WHERE session_id = $1', [id]);
  return message;
}

/** A session's parts without their ids and session. */
async function partsOf(session: Session): Promise<Row[]> {
  return rows(
    db,
    `SELECT m.position, m.role, (m.metadata - 'hidden_by')::text AS metadata, m.created_at AS said_at, p.index, p.type,
            p.data::text, p.tool_call_id, p.tool_state, p.created_at, p.updated_at
       FROM chat_messages m JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id
      WHERE m.session_id = $1 AND m.hidden_at IS NULL ORDER BY m.position, p.index`,
    [session.id],
  );
}

const SUMS = ['prompt_tokens', 'completion_tokens', 'reasoning_tokens', 'cache_read', 'cache_write', 'total_tokens'];

describe('a branch', () => {
  it('X4 has copies of what is visible up to a message, under new ids, parts byte for byte', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    await session.edit('two', 'zwei', { id: 'zwei' });
    await answered(session, 4);
    const { run_seq: run } = (await session.say('build', { id: 'build' })) as { run_seq: number };
    await session.claim(run, [0, run, 1]);
    const callId = newId('call');
    await session.settleStep(run, [0, run, 1], {
      parts: [{ ...textPart(0, 'now'), settled: true }, toolPart(callId, 1)],
      toolCalls: [{ tool_call_id: callId, name: 'build_and_deploy' }],
      usage: { input: 7, cache_read: 5 },
      cost: 0.25,
    });
    await session.settleRun(run, 'aborted');
    await db.query('INSERT INTO tool_outputs (session_id, tool_call_id, output) VALUES ($1, $2, $3)', [
      session.id,
      callId,
      'all of it',
    ]);
    const answer = (await session.messages()).at(-1)!['id'] as string;
    const before = await everything(session);
    const copy = await branch(session, answer);
    expect(await everything(session), 'the parent is as it was').toEqual(before);
    expect(await partsOf(copy)).toEqual(await partsOf(session));
    const ids = (await copy.messages()).map((row) => row['id'] as string);
    expect(ids.toSorted()).toEqual(ids);
    expect(ids.every((id) => /^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$/.test(id))).toBe(true);
    expect(new Set([...ids, ...before.map((row) => row['id'])]).size).toBe(ids.length + before.length);
    expect(await copy.chat()).toMatchObject({ parent_id: session.id, parent_message_id: answer, epoch: 0 });
    expect(await rows(db, 'SELECT output FROM tool_outputs WHERE session_id = $1', [copy.id])).toHaveLength(1);
    expect((await copy.runs()).map((each) => each['state'])).toEqual(['finished', 'finished', 'aborted']);
    const { run_seq: next } = (await copy.say('and now')) as { run_seq: number };
    const { view } = (await copy.claim(next, [0, 1, 1])) as Answer & { view: Row[] };
    expect(
      view.filter((part) => part['aborted']),
      'the model is told what the user aborted',
    ).toHaveLength(2);
  });

  it('X4 U2 its sums are those of the copies', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const all = await session.chat();
    const copy = await branch(session, 'three');
    const half = await copy.chat();
    expect(half).toMatchObject({ prompt_tokens: 1 + 2, completion_tokens: 2, total_tokens: 5, cost_usd: null });
    const whole = await (await branch(session, (await session.messages()).at(-1)!['id'] as string)).chat();
    for (const name of SUMS) expect(whole[name]).toBe(all[name]);
  });

  it('X4 opens at chatting, with the settings and the project, the merged metadata, and no alias, lock or stack', async () => {
    const session = await Session.at('verifying', db, { project: newId('prj') });
    await db.query(
      `UPDATE chat_sessions SET metadata = '{"a": 1, "b": 1}', workspace_root = '/w', model = 'x/y', headless = true,
                           permissions = '[{"action": "allow"}]' WHERE session_id = $1`,
      [session.id],
    );
    await db.query(`INSERT INTO scoped_state (scope, owner, key, value) VALUES ('session', $1, 'k', '[1]')`, [
      session.id,
    ]);
    await session.say('one', { id: 'one' });
    await session.answer(1);
    await session.rewind('one');
    const command = newId('cmd');
    await db.query(`SELECT append_event($1, 'metadata', 'user', '{"metadata": {"b": 2, "ephemeral": true}}', $2)`, [
      session.id,
      `branch:${command}/metadata`,
    ]);
    const outcome = await session.apply('branch', { from_message_id: 'one' }, `branch:${command}`);
    expect(outcome).toMatchObject({ ok: true, phase: 'verifying' });
    expect(await session.apply('branch', { from_message_id: 'one' }, `branch:${command}`), 'repeated').toEqual(outcome);
    const copy = new Session(db, outcome['session_id'] as string);
    const { project_id: project } = await session.row();
    expect(await copy.row()).toMatchObject({
      user_id: 'ada',
      phase: 'chatting',
      project_id: project,
      cancel_token: null,
    });
    expect(await copy.chat()).toMatchObject({
      agent: 'site-builder',
      workspace_root: '/w',
      model: 'x/y',
      headless: true,
      permissions: [],
      metadata: { a: 1, b: 2, ephemeral: true },
      rewinds: null,
    });
    expect(await rows(db, `SELECT key, value FROM scoped_state WHERE owner = $1`, [copy.id])).toEqual([
      { key: 'k', value: [1] },
    ]);
    const kinds = await rows(db, 'SELECT kind FROM session_events WHERE session_id = $1 ORDER BY seq', [copy.id]);
    expect(kinds.map((row) => row['kind'])).toEqual(['opened', 'transition', 'state']);
    const model = await branch(session, 'one', { model: 'other/model' });
    expect(await model.chat()).toMatchObject({ model: 'other/model' });
  });

  it('X4 may begin later: at a message, or with the last turns', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const texts = async (from: string, args: object) => (await visible(await branch(session, from, args))).length;
    expect(await texts('three', { from_start_message_id: 'two' })).toBe(3);
    expect(await texts('three', { tail_turns: 1 })).toBe(1);
    expect(await texts('three', { tail_turns: 2 })).toBe(3);
    expect(await texts('three', { tail_turns: 9 })).toBe(5);
    for (const args of [
      { from_start_message_id: 'three' },
      { from_start_message_id: 'nothing' },
      { from_start_message_id: 'one', tail_turns: 1 },
    ]) {
      expect(await session.apply('branch', { from_message_id: 'two', ...args })).toMatchObject({
        code: 'InvalidRange',
      });
    }
  });

  it('X4 at a message that a compaction hid copies the turns; after it, the summary, which refers to the copy', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    await db.query(
      `UPDATE chat_messages SET hidden_at = now(), metadata = metadata
          || '{"hidden_by": {"cause": "compaction", "id": "summary"}}' WHERE session_id = $1 AND position < 3000`,
      [session.id],
    );
    await db.query(
      `INSERT INTO chat_messages (id, session_id, position, role) VALUES ('summary', $1, 2500, 'assistant')`,
      [session.id],
    );
    const data = { type: 'data-compaction', data: { summary: 'what was said', tail_start_id: 'three', auto: true } };
    await db.query(
      `INSERT INTO chat_parts (id, message_id, session_id, index, type, data) VALUES ($1, 'summary', $2, 0, $3, $4)`,
      [newId('prt'), session.id, data.type, JSON.stringify(data)],
    );
    expect(await visible(await branch(session, 'two'))).toHaveLength(3);
    const namesIn = async (copy: Session, id: unknown) => {
      const [part] = await rows(db, 'SELECT data FROM chat_parts WHERE session_id = $1 AND message_id = $2', [
        copy.id,
        id,
      ]);
      return part!['data'];
    };
    const after = await branch(session, 'three');
    const [summary, three] = await after.messages();
    expect(await after.messages()).toHaveLength(2);
    expect(await namesIn(after, summary!['id'])).toEqual({
      ...data,
      data: { ...data.data, tail_start_id: three!['id'] },
    });
    const at = await branch(session, 'summary');
    expect(await at.messages()).toHaveLength(1);
    const { run_seq: again } = (await session.edit('three', 'drei', { id: 'drei' })) as { run_seq: number };
    await answered(session, again);
    const edited = await branch(session, 'drei');
    for (const copy of [at, edited]) {
      const [{ id }] = (await copy.messages()) as [Row];
      expect(await namesIn(copy, id), 'no id of the parent').toEqual({
        ...data,
        data: { ...data.data, tail_start_id: id },
      });
    }
  });

  it('X4 the run that has summarized by hand is not copied: the summary would be a turn without a message', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    expect(await compact(session)).toBeDefined();
    const copy = await branch(session, 'three');
    expect(await copy.messages()).toHaveLength(2);
    expect(await copy.runs()).toEqual([]);
  });

  it.each<[string, (session: Session) => Promise<string>, string]>([
    ['an unknown message', async () => 'nothing', 'MessageNotFound'],
    ['a message of another session', async () => (await conversation(db, 'else')) && 'else', 'MessageNotFound'],
    ['a message that a rewind hid', async (session) => (await session.rewind('one')) && 'two', 'MessageHidden'],
    ['a session with a run in flight', async (session) => (await session.say('more')) && 'one', 'RunInFlight'],
    ['a subagent, whose permissions come from above', (session) => asChild(session, 'one'), 'ChildSession'],
  ])('X4 of %s is refused, and makes nothing', async (_what, prepare, code) => {
    const session = await conversation(db, 'one', 'two');
    const target = await prepare(session);
    expect(await session.apply('branch', { from_message_id: target })).toMatchObject({ ok: false, code });
    expect(await rows(db, 'SELECT FROM chat_sessions WHERE parent_id = $1', [session.id])).toEqual([]);
  });

  it('X4 T8 is not refused for the title that was added to metadata of the longest kind', async () => {
    const session = await conversation(db, 'one');
    const longest = { text: 'x'.repeat(16 * 1024 - '{"text":""}'.length) };
    await db.query('UPDATE chat_sessions SET metadata = $2 WHERE session_id = $1', [session.id, longest]);
    await call(db, 'rename_session', [session.id, session.user, 'A title']);
    const copy = await branch(session, 'one');
    expect((await copy.chat())['metadata']).toEqual({ ...longest, title: 'A title' });
    const command = `branch:${newId('cmd')}`;
    await call(db, 'log_metadata', [session.id, '{"more": 1}', `${command}/metadata`]);
    const refused = await session.apply('branch', { from_message_id: 'one' }, command);
    expect(refused).toMatchObject({ ok: false, code: 'TooLarge', field: 'metadata' });
  });
});

describe('a branch of a long session', () => {
  it('X4 W1 has up to 50,000 messages and parts, and takes no time that grows with their square', async () => {
    // The square of their number would take minutes.
    const ms = patient(30_000);
    const url = `${db.options.connectionString}?statement_timeout=${ms}&query_timeout=${2 * ms}`;
    const limited = createPool(url, { max: 1 });
    afterFile(() => limited.end());
    const session = (await Session.at('chatting', db)).through(limited);
    await patiently(db, async (client) => {
      const insert = (role: string, add: number) =>
        client.query(
          `INSERT INTO chat_messages (session_id, role, id, position)
           SELECT $1, $2::text, $2::text || n, n * 1000 + $3::integer FROM generate_series(1, 25000) AS n`,
          [session.id, role, add],
        );
      await insert('user', 0);
      await insert('assistant', 1);
      await client.query(
        `INSERT INTO chat_runs (session_id, seq, message_id, answer_id, state)
         SELECT $1, n, 'user' || n, 'assistant' || n, 'finished' FROM generate_series(1, 25000) AS n`,
        [session.id],
      );
    });
    const copy = await branch(session, 'assistant25000');
    const positions = async (of: Session) => (await of.messages()).map(({ role, position }) => [role, position]);
    expect(await positions(copy)).toEqual(await positions(session));
    expect(await copy.runs()).toHaveLength(25_000);
    await db.query(
      `INSERT INTO chat_parts (session_id, id, message_id, index, type, data) VALUES ($1, 'more', 'user2', 0, 'text', '{}')`,
      [session.id],
    );
    const refused = await session.apply('branch', { from_message_id: 'assistant25000' });
    expect(refused).toMatchObject({ ok: false, code: 'TooLarge' });
    for (const [from, args] of [
      ['user25000', {}],
      ['assistant25000', { tail_turns: 24_999 }],
    ] as const) {
      expect(await session.apply('branch', { from_message_id: from, ...args })).toMatchObject({ ok: true });
    }
  });

  it('X4 W1 has at most 64 MiB as stored, with the full outputs of its tools', async () => {
    for (const column of ['chat_parts ALTER data', 'tool_outputs ALTER output']) {
      await db.query(`ALTER TABLE ${column} SET STORAGE EXTERNAL`);
    }
    const session = await conversation(db, 'one', 'two');
    const part = `jsonb_build_object('type', 'tool-x', 'output', repeat('x', 30 * 1024 * 1024))`;
    await db.query(
      `INSERT INTO chat_parts (session_id, id, message_id, index, type, data, tool_call_id, tool_state)
       SELECT $1, 'part', 'one', 1, 'tool-x', ${part}, 'call', 'output-available'`,
      [session.id],
    );
    expect(await (await branch(session, 'two')).parts()).toHaveLength(4);
    await db.query(
      `INSERT INTO tool_outputs (session_id, tool_call_id, output) SELECT $1, 'call', repeat('x', 35 * 1024 * 1024)`,
      [session.id],
    );
    expect(await session.apply('branch', { from_message_id: 'two' })).toMatchObject({ ok: false, code: 'TooLarge' });
    expect(await (await branch(session, 'two', { tail_turns: 1 })).parts()).toHaveLength(1);
  });
});
