import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { call, freshRows, refusal, rows, Session, textPart, type Row } from './session.ts';

const db = await freshRows({ max: 50 });

const open = () => Session.at('chatting', db);
const file = { id: newId('prt'), type: 'file', data: { type: 'file', url: 'data:,x', mediaType: 'text/plain' } };
const text = (words: string) => ({ id: newId('prt'), type: 'text', data: { type: 'text', text: words } });

describe('accepting a message', () => {
  it('S9 a repeat gets the result of the first, and nothing is stored twice', async () => {
    const session = await open();
    await session.say('first');
    const answer = await session.say('hello', { id: 'mine', model: 'a/b' });
    expect(answer).toMatchObject({ ok: true, accepted: true, run_seq: 2, position: 1, model: 'a/b', state: 'queued' });
    const stored = await session.everything();
    expect(await session.say('hello', { id: 'mine', model: 'a/b' })).toEqual({
      ...answer,
      accepted: false,
      code: null,
    });
    expect(await session.everything()).toEqual(stored);
  });

  it('S9 a repeat is recognized even if the queue is full, the run has ended or the message is cancelled', async () => {
    const session = await open();
    for (const id of ['a', 'b']) await session.say(id, { id, maxQueue: 2 });
    expect(await session.say('b', { id: 'b', maxQueue: 2 })).toMatchObject({
      accepted: false,
      run_seq: 2,
      position: 1,
    });
    await session.cancelQueued('b');
    await session.claim(1, [0, 1, 1]);
    await session.settleStep(1, [0, 1, 1], { end: true });
    for (const [index, id] of ['a', 'b'].entries()) {
      expect(await session.say(id, { id })).toMatchObject({ accepted: false, run_seq: index + 1, position: 0 });
    }
    expect(await session.runs()).toMatchObject([{ state: 'finished' }, { state: 'cancelled' }]);
  });

  it('S9 the same id with other content is a conflict and changes nothing', async () => {
    const session = await open();
    await session.say('', { id: 'mine', parts: [text('one'), file] });
    await session.claim(1, [0, 1, 1]);
    await session.append(1, [0, 1, 1], [textPart(0, 'answer')]);
    const stored = await session.everything();
    const { answer_id } = (await session.run(1)) as { answer_id: string };
    const others = [[text('one')], [file, text('one')], [text('one'), file, text('')], [text('One'), file], []];
    for (const parts of others) {
      expect(await session.say('', { id: 'mine', parts })).toEqual({ ok: false, code: 'MessageConflict' });
    }
    expect(await session.say('answer', { id: answer_id })).toEqual({ ok: false, code: 'MessageConflict' });
    expect(await session.everything()).toEqual(stored);
  });

  it('S9 the id of a future answer is a conflict', async () => {
    const session = await open();
    await session.say('hello');
    const { answer_id } = (await session.run(1)) as { answer_id: string };
    expect(await session.say('mine', { id: answer_id })).toEqual({ ok: false, code: 'MessageConflict' });
  });

  it('S9 the same message sent ten times at once is one message, one run and one result for all', async () => {
    const session = await open();
    const answers = await Promise.all(Array.from({ length: 10 }, () => session.say('hello', { id: 'mine' })));
    expect(answers.filter((answer) => answer['accepted'])).toHaveLength(1);
    for (const answer of answers) expect(answer).toMatchObject({ ok: true, run_seq: 1, position: 0 });
    expect(await session.messages()).toHaveLength(1);
    expect(await session.runs()).toHaveLength(1);
    expect(await session.parts()).toHaveLength(1);
  });

  it('S9 of two concurrent messages with one id and different contents one is stored, the other is a conflict', async () => {
    for (let round = 0; round < 20; round += 1) {
      const session = await open();
      const answers = await Promise.all(['yes', 'no'].map((words) => session.say(words, { id: 'mine' })));
      expect(answers.filter((answer) => answer['ok'])).toHaveLength(1);
      expect(answers.filter((answer) => answer['code'] === 'MessageConflict')).toHaveLength(1);
      expect(await session.messages()).toHaveLength(1);
    }
  });

  it('S9 fifty concurrent messages get distinct positions and runs, in the same order', async () => {
    const session = await open();
    const said = await Promise.all(Array.from({ length: 50 }, (_, n) => session.say(`${n}`, { id: `m${n}` })));
    const messages = await session.messages();
    expect(messages.map((message) => message['position'])).toEqual(
      Array.from({ length: 50 }, (_, n) => (n + 1) * 1000),
    );
    const runs = await session.runs();
    expect(runs.map((run) => run['seq'])).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
    expect(runs.map((run) => run['message_id'])).toEqual(messages.map((message) => message['id']));
    for (const [n, answer] of said.entries()) {
      const run = runs.find((one) => one['message_id'] === `m${n}`)!;
      expect(answer).toMatchObject({ accepted: true, run_seq: run['seq'], position: (run['seq'] as number) - 1 });
    }
  });

  it('S6 a message to another user’s session is refused like one to an unknown session', async () => {
    const session = await open();
    const stored = await session.everything();
    expect(await session.say('hello', { user: 'eve' })).toEqual({ ok: false, code: 'SessionNotFound' });
    expect(await session.everything()).toEqual(stored);
  });

  it('W7 a full queue refuses the next message and stores nothing of it', async () => {
    const session = await open();
    for (let n = 0; n < 3; n += 1) expect(await session.say(`${n}`, { maxQueue: 3 })).toMatchObject({ ok: true });
    const stored = await session.everything();
    expect(await session.say('too many', { maxQueue: 3 })).toEqual({ ok: false, code: 'TooMany' });
    expect(await session.everything()).toEqual(stored);
    await session.settleRun(1, 'aborted');
    expect(await session.say('again', { maxQueue: 3 })).toMatchObject({ ok: true, position: 2 });
  });

  it('X10 the model of a message is used until another is named', async () => {
    const session = await open();
    for (const model of [null, 'a/b', null, 'c/d', null]) await session.say('hello', { model });
    expect((await session.runs()).map((run) => run['model'])).toEqual([null, 'a/b', 'a/b', 'c/d', 'c/d']);
    expect((await session.chat())['model']).toBe('c/d');
  });

  it('X10 a variant lasts one turn, and the rehearsal model is never carried forward', async () => {
    const session = await open();
    const model = { provider_id: 'a', model_id: 'b', variant: 'high' };
    await session.say('think', { model: 'a/b', metadata: { model } });
    await session.say('go on');
    // What a client says of a model that it does not choose has no effect.
    await session.say('go on', { metadata: { model } });
    await session.say('rehearse', { model: 'rehearsal/site-builder' });
    await session.say('go on');
    expect((await session.runs()).map((run) => [run['model'], run['variant']])).toEqual([
      ['a/b', 'high'],
      ['a/b', null],
      ['a/b', null],
      ['rehearsal/site-builder', null],
      ['a/b', null],
    ]);
    expect((await session.chat())['model']).toBe('a/b');
  });

  it('X10 an answer is given again with the variant of the last one, unless it has another model', async () => {
    const session = await open();
    const model = { provider_id: 'a', model_id: 'b', variant: 'high' };
    const { message_id: id } = await session.say('think', { model: 'a/b', metadata: { model } });
    const variants = async () => (await session.runs()).map((run) => run['variant']);
    const again = async (chosen: string | null, variant: string | null) => {
      await session.settleRun((await session.runs()).length, 'aborted');
      await session.regenerate(id as string, { model: chosen, variant });
    };
    await again(null, null);
    await again('a/b', null);
    await again('a/b', 'low');
    await again('rehearsal/site-builder', null);
    await again(null, null);
    expect(await variants()).toEqual(['high', 'high', null, 'low', null, null]);
    expect((await session.run(6))['model']).toBe('a/b');
  });
});

describe('positions', () => {
  it('T3 a user message gets the next multiple of 1,000 as position, its answer the position after it', async () => {
    const session = await open();
    for (let run = 1; run <= 3; run += 1) {
      await session.say(`${run}`);
      await session.say(`${run} more`);
      await session.claim(run, [0, run, 1]);
      await session.append(run, [0, run, 1], [textPart(0, 'answer')]);
      await session.settleStep(run, [0, run, 1], { end: true });
    }
    const places = (await session.messages()).map(({ position, role }) => [position, role].join(' '));
    expect(places).toEqual([
      ...['1000 user', '1001 assistant', '2000 user', '2001 assistant', '3000 user', '3001 assistant'],
      ...['4000 user', '5000 user', '6000 user'],
    ]);
  });

  it('T3 ids of clients are kept, if they have 1 to 64 letters, digits, _ and -', async () => {
    const session = await open();
    for (const id of ['a', 'Z9_-', 'x'.repeat(64)])
      expect(await session.say('hello', { id })).toMatchObject({ ok: true });
    expect((await session.messages()).map((message) => message['id'])).toEqual(['a', 'Z9_-', 'x'.repeat(64)]);
    for (const id of ['', 'x'.repeat(65), 'a b', 'é', 'a\n'])
      expect(await refusal(session.say('hello', { id }))).toBe('23514');
  });

  it('T2 an answer has no row before its first content', async () => {
    const session = await open();
    await session.say('hello');
    await session.claim(1, [0, 1, 1]);
    expect(await session.append(1, [0, 1, 1], [], [], null)).toBe('live');
    expect(await session.messages()).toHaveLength(1);
    await session.append(1, [0, 1, 1], [textPart(0, 'answer')], [], { system_prompt_digest: 'abc' });
    expect(await session.messages()).toMatchObject([
      { role: 'user' },
      { role: 'assistant', metadata: { system_prompt_digest: 'abc' }, position: 1001 },
    ]);
  });
});

describe('append-only', () => {
  const PROTECTED = [
    `id = 'other'`,
    'position = 7',
    `role = 'system'`,
    'created_at = now()',
    'session_id = session_id || $2',
  ];

  it.each(PROTECTED)('T1 no UPDATE sets %s of a message', async (set) => {
    const session = await open();
    await session.say('hello');
    const update = db.query(`UPDATE chat_messages SET ${set.replace('$2', `'x'`)} WHERE session_id = $1`, [session.id]);
    expect(await refusal(update)).toBe('PD001');
  });

  it('T1 hidden_at, metadata and updated_at of a message may change, and no message is deleted', async () => {
    const session = await open();
    await session.say('hello');
    const set = `hidden_at = now(), metadata = '{"a": 1}', updated_at = now()`;
    expect(await refusal(db.query(`UPDATE chat_messages SET ${set} WHERE session_id = $1`, [session.id]))).toBe('ok');
    expect(await refusal(db.query('DELETE FROM chat_messages WHERE session_id = $1', [session.id]))).toBe('PD001');
    expect(await session.messages()).toMatchObject([{ metadata: { a: 1 } }]);
  });

  it('W2 the event log of a session is append-only, and its numbers have no gap', async () => {
    const session = await Session.at('done', db);
    await session.cancel();
    await call(db, 'log_reason', [session.id, 'user', 'because', 'cancel:1/reason']);
    expect((await session.events()).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect((await session.events()).at(-1)).toMatchObject({ kind: 'reason', data: { text: 'because' } });
    expect(await refusal(db.query(`UPDATE session_events SET data = '{}' WHERE session_id = $1`, [session.id]))).toBe(
      'PD001',
    );
    expect(await refusal(db.query('DELETE FROM session_events WHERE session_id = $1', [session.id]))).toBe('PD001');
  });

  it('T1 a tool call is one row, whatever its state', async () => {
    const session = await open();
    const run = await session.runWithCalls(['call_1']);
    const [part] = await session.parts(run);
    const states: unknown[] = [part!['tool_state']];
    await session.beginTool(run, [0, 2, 1], 'call_1');
    await session.finishTool(run, [0, 2, 1], 'call_1');
    const after: Row[] = await session.parts(run);
    expect([...states, after[0]!['tool_state']]).toEqual(['input-available', 'output-available']);
    expect(after).toMatchObject([{ id: part!['id'], tool_call_id: 'call_1', index: 0 }]);
    const double = `INSERT INTO chat_parts (id, message_id, session_id, index, type, data, tool_call_id)
                    SELECT 'prt_other', message_id, session_id, 9, type, data, tool_call_id FROM chat_parts WHERE id = $1`;
    expect(await refusal(db.query(double, [part!['id']]))).toBe('23505');
  });

  it('T3 a message without a session cannot be stored', async () => {
    const stray = `INSERT INTO chat_messages (id, session_id, position, role) VALUES ('m', $1, 1000, 'user')`;
    expect(await refusal(db.query(stray, [newId('ses')]))).toBe('23503');
    expect(await rows(db, `SELECT FROM chat_messages WHERE id = 'm'`)).toEqual([]);
  });
});
