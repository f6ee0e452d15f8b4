// A conversation that fills the model's window is compacted: by itself, by hand, and before a smaller model.
import { beforeAll, describe, expect, it } from 'vitest';
import { readEvents } from '../../store/events.ts';
import { readStatus } from '../../store/status.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { fail, failContextLength, report, say } from '../../tools/test-kit/model-actions.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { statusQuery, updates } from '../../workflows/definitions.ts';
import { refusalOf } from '../faults/answered.ts';
import {
  agent,
  byHand,
  CATALOG,
  isSummary,
  messages,
  requests,
  send,
  startSmall,
  SUMMARY,
  talking,
  tell,
  visible,
  words,
} from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startSmall({
    catalog: { ...CATALOG, 'openai/other': CATALOG['openai/test'] },
    agents: [agent('talker'), agent('by-hand', { auto: false, tail_turns: 1 }), agent('early', { compact_at: 0.5 })],
  });
});

const open = (id = 'talker') => TestSession.open(runtime, { agent: id });

/** A session of which the next message, of 500 tokens, exceeds the usable 1,600. */
async function full(id?: string): Promise<TestSession> {
  const session = await open(id);
  await tell(session, [words(550, 'one'), words(550, 'two'), 'three', 'four']);
  return session;
}

describe('a conversation that reaches the usable window', () => {
  it('X5 is summarized before the next step: one hidden stretch, a summary, and the newest turns as they were', async () => {
    runtime.model.script(talking());
    const session = await full();
    const from = runtime.model.requests.length;
    await tell(session, [words(500, 'five')]);
    const shown = await visible(runtime, session);
    expect(shown.map((text) => text.split(' ').slice(0, 3).join(' '))).toEqual([
      'data-compaction',
      ...['three', 'You said: three', 'four', 'You said: four', 'five data data', 'You said: five'],
    ]);
    const all = await messages(runtime, session);
    const summary = all.find(({ parts }) => parts[0]?.type === 'data-compaction')!;
    const tail = all.find(({ parts }) => parts[0]?.text === 'three')!;
    expect(summary.parts[0]!.data).toEqual({
      summary: SUMMARY,
      tail_start_id: tail.id,
      auto: true,
      summary_tokens: expect.any(Number) as number,
      turns: 2,
    });
    const hiddenBy = all.filter(({ hidden }) => hidden).map(({ metadata }) => metadata['hidden_by']);
    expect(hiddenBy).toEqual(hiddenBy.map(() => ({ cause: 'compaction', id: summary.id })));
    expect(hiddenBy).toHaveLength(4);

    const [summarizing, ...more] = requests(runtime, 'summary', from);
    expect(more).toEqual([]);
    expect(JSON.stringify(summarizing!.messages)).toMatch(/# User\\n\\none data.*# User\\n\\ntwo data/);
    expect(JSON.stringify(summarizing!.messages)).not.toContain('three');
    const [asked] = requests(runtime, 'turn', from);
    const texts = asked!.messages.slice(1).map(({ content }) => content as string);
    expect(texts[0]).toMatch(/^The earlier part of this conversation[^]*\n\n\[End of the summary\.\]\n\nthree$/);
    expect(texts.slice(1, 4)).toEqual(['You said: three', 'four', 'You said: four']);
    const { items } = await readEvents(runtime.db, session.id, 0, 50);
    expect(items.map(({ kind }) => kind)).toContain('compaction');
  });

  it('X7 by the provider’s cheapest model, in one call, at a low temperature, with a limit of output and without tools', async () => {
    runtime.model.script(talking());
    const session = await full();
    const from = runtime.model.requests.length;
    await tell(session, [words(500, 'five')]);
    const [asked, ...more] = requests(runtime, 'summary', from);
    expect(more).toEqual([]);
    expect(asked).toMatchObject({ model: 'mini', temperature: 0.2, max_tokens: 400 });
    expect(asked!['tools']).toBeUndefined();
  });

  it('U2 the summarizer’s tokens are in the sums, as those of its message', async () => {
    runtime.model.script(talking(() => [say(SUMMARY), report({ input: 1_111, output: 33 })]));
    const session = await full();
    await tell(session, [words(500, 'five')]);
    const { rows } = await runtime.db.query<{ total: number; summed: string }>(
      `SELECT c.total_tokens AS total, (SELECT sum(value::bigint) FROM chat_messages m, jsonb_each_text(m.metadata -> 'usage')
         WHERE m.session_id = c.session_id) AS summed
         FROM chat_sessions c WHERE c.session_id = $1`,
      [session.id],
    );
    expect(rows[0]!.total).toBe(Number(rows[0]!.summed));
    const summary = (await messages(runtime, session)).find(({ parts }) => parts[0]?.type === 'data-compaction');
    expect(summary!.metadata['usage']).toMatchObject({ input: 1_111, output: 33 });
  });

  it('R5 the status says compacting, in the row and in the query, and an abort ends the turn with nothing changed', async () => {
    const gate = new Gate();
    runtime.model.script(
      talking(async () => {
        await gate.pass();
        return [say(SUMMARY)];
      }),
    );
    const session = await full();
    const before = await visible(runtime, session);
    const seq = await send(session, words(500, 'five'));
    await gate.reached;
    const busy = { state: 'busy', message: 'compacting' };
    await eventually(async () => expect(await readStatus(runtime.db, session.id)).toMatchObject(busy));
    await eventually(async () => expect(await session.handle.query(statusQuery)).toMatchObject(busy));
    expect(await refusalOf(session.command(updates.compact))).toMatchObject({ code: 'RunInFlight' });
    await session.command(updates.abort);
    expect((await session.ended(seq)).state).toBe('aborted');
    gate.open();
    expect((await visible(runtime, session)).slice(0, -1)).toEqual(before);
    expect(await readStatus(runtime.db, session.id)).toEqual({ state: 'idle' });
  });

  it('X5 a provider that refuses the conversation as too long, below the known limit: it is compacted once', async () => {
    runtime.model.script((request, index) => {
      const isLong = !isSummary(request) && JSON.stringify(request.messages).includes('two data');
      const isLast = JSON.stringify(request.messages).includes('five');
      return isLong && isLast ? [failContextLength()] : talking()(request, index);
    });
    const session = await full();
    await tell(session, ['five']);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
  });

  it('X5 compact_at is a share of usable', async () => {
    runtime.model.script(talking());
    const session = await open('early');
    await tell(session, [words(600, 'one'), 'two', 'three', words(300, 'four')]);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
  });

  it('X5 auto: false compacts only by hand', async () => {
    runtime.model.script(talking());
    const session = await full('by-hand');
    await tell(session, [words(500, 'five')]);
    expect(await visible(runtime, session)).not.toContain('data-compaction');
  });

  it('X3 a rewind to before a compaction shows again what it had summarized; un-rewind hides it again', async () => {
    runtime.model.script(talking());
    const session = await full();
    await tell(session, [words(500, 'five')]);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
    const before = await messages(runtime, session);
    const two = before.find(({ parts }) => parts[0]?.text?.startsWith('two'))!;
    await session.command(updates.rewind, { message_id: two.id });
    const short = (await visible(runtime, session)).map((text) => text.slice(0, 8));
    expect(short).toEqual(['one data', 'You said', 'two data']);
    const four = before.find(({ parts }) => parts[0]?.text === 'four')!;
    expect(await refusalOf(session.command(updates.rewind, { message_id: four.id }))).toMatchObject({
      code: 'MessageHidden',
    });
    await session.command(updates.unrewind);
    expect((await messages(runtime, session)).map(({ id, hidden }) => [id, hidden])).toEqual(
      before.map(({ id, hidden }) => [id, hidden]),
    );
  });

  it('X3 a message that a rewound-away compaction had hidden is not a target', async () => {
    runtime.model.script(talking());
    const session = await full();
    await tell(session, [words(500, 'five')]);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
    const all = await messages(runtime, session);
    const [one, two] = ['one', 'two'].map((word) => all.find(({ parts }) => parts[0]?.text?.startsWith(word))!);
    await session.command(updates.rewind, { message_id: one!.id });
    await tell(session, ['instead']);
    expect(await refusalOf(session.command(updates.rewind, { message_id: two!.id }))).toMatchObject({
      code: 'MessageHidden',
    });
  });
});

describe('a compaction by hand', () => {
  it('X5 summarizes all but the newest turns; without any before them it is NothingToCompact', async () => {
    runtime.model.script(talking());
    const session = await open('by-hand');
    await tell(session, [words(200, 'one')]);
    expect(await refusalOf(session.command(updates.compact))).toMatchObject({ code: 'NothingToCompact' });
    await tell(session, ['two']);
    const id = await byHand(session, updates.compact);
    const [summary, ...rest] = (await messages(runtime, session)).filter(({ hidden }) => !hidden);
    expect(summary).toMatchObject({ id, parts: [{ type: 'data-compaction', data: { auto: false, turns: 1 } }] });
    expect(rest.map(({ parts }) => parts.map(({ text }) => text ?? '').join(''))).toEqual(['two', 'You said: two']);
    expect(await readStatus(runtime.db, session.id)).toEqual({ state: 'idle' });
    expect(await refusalOf(session.command(updates.compact))).toMatchObject({ code: 'NothingToCompact' });
  });

  it('X6 after a rewind keeps as many whole turns as others, and the message without an answer', async () => {
    runtime.model.script(talking());
    const session = await open('by-hand');
    await tell(session, [words(200, 'one'), 'two', 'three']);
    const three = (await messages(runtime, session)).find(({ parts }) => parts[0]?.text === 'three')!;
    await session.command(updates.rewind, { message_id: three.id });
    const { run_seq: run } = await session.command(updates.compact);
    expect((await session.ended(run)).state).toBe('finished');
    expect(await visible(runtime, session)).toEqual(['data-compaction', 'two', 'You said: two', 'three']);
    await tell(session, ['instead']);
    expect(await visible(runtime, session)).toEqual([
      ...['data-compaction', 'two', 'You said: two'],
      ...['instead', 'You said: instead'],
    ]);
  });
});

describe('a switch of models', () => {
  it('X10 to a smaller window compacts first', async () => {
    runtime.model.script(talking());
    const session = await open('by-hand');
    await tell(session, [words(900, 'one'), words(900, 'two'), 'three'], 'openai/test');
    await tell(session, ['four'], 'openai/small');
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
  });

  it('X10 to a smaller window fails with advice if a compaction is not enough; the session keeps its model and goes on', async () => {
    runtime.model.script(talking());
    const session = await open('talker');
    await tell(session, [words(100, 'one'), words(2_500, 'two')], 'openai/test');
    const run = await session.ended(await send(session, 'three', 'openai/small'));
    expect(run).toMatchObject({
      state: 'error',
      error_code: 'ContextTooLong',
      error_message:
        'Switching to a model with a smaller context window would lose the conversation; consider branching with the new model.',
    });
    await tell(session, ['four']);
    expect(runtime.model.requests.at(-1)!.body.model).toBe('test');
  });

  it('X10 fails if its provider refuses the conversation after a compaction; the session keeps its model and goes on', async () => {
    const answer = talking();
    runtime.model.script((request, index) =>
      request.model === 'other' ? [failContextLength()] : answer(request, index),
    );
    const session = await open('talker');
    await tell(session, [words(100, 'one'), words(100, 'two'), 'three', 'four'], 'openai/test');
    const from = runtime.model.requests.length;
    const run = await session.ended(await send(session, 'five', 'openai/other'));
    expect(runtime.model.requests.slice(from).map(({ body }) => body.model)).toEqual(['other', 'mini', 'other']);
    expect(run).toMatchObject({
      ...{ state: 'error', error_code: 'ContextTooLong' },
      error_message: expect.stringContaining('consider branching with the new model') as string,
    });
    await tell(session, ['six']);
    expect(runtime.model.requests.at(-1)!.body.model).toBe('test');
  });

  it.each([
    ['to a larger window, whose provider refuses all the same', 'openai/small', failContextLength()],
    ['whose provider refuses files, which are left out from now on', 'openai/test', fail(413)],
  ])('X10 R6 %s, is not undone', async (_which, former, refusal) => {
    const answer = talking();
    runtime.model.script((request, index) => (request.model === 'other' ? [refusal] : answer(request, index)));
    const session = await open('talker');
    await tell(session, ['one'], former);
    const run = await session.ended(await send(session, 'two', 'openai/other'));
    expect(run.error_code).toBe('ContextTooLong');
    expect(run.error_message).not.toContain('smaller context window');
    const { rows } = await runtime.db.query('SELECT model FROM chat_sessions WHERE session_id = $1', [session.id]);
    expect(rows).toEqual([{ model: 'openai/other' }]);
  });

  it('X10 to a smaller window that fails leaves the messages that wait behind it to the former model', async () => {
    const gate = new Gate();
    const answer = talking();
    runtime.model.script(async function* (request, index) {
      if (JSON.stringify(request.messages.at(-1)).includes('two data')) await gate.pass();
      yield* await answer(request, index);
    });
    const session = await open('talker');
    await tell(session, [words(100, 'one')], 'openai/test');
    await send(session, words(2_500, 'two'));
    const failed = await send(session, 'three', 'openai/small');
    const queued = await send(session, 'four');
    gate.open();
    expect((await session.ended(failed)).error_code).toBe('ContextTooLong');
    // An error pauses the queue until the next message.
    const last = await send(session, 'five');
    expect([(await session.ended(queued)).state, (await session.ended(last)).state]).toEqual(['finished', 'finished']);
    expect(runtime.model.requests.slice(-2).map(({ body }) => body.model)).toEqual(['test', 'test']);
  });

  it('X10 X5 to a larger window is judged like any step: not refused, and not compacted with auto: false', async () => {
    runtime.model.script(talking());
    // Of the larger window, usable are 7,600, and its model takes 8,000.
    const filling = words(9_500, 'three');
    const alone = await open('talker');
    await tell(alone, ['one'], 'openai/small');
    await tell(alone, [filling], 'openai/test');
    const manual = await open('by-hand');
    await tell(manual, ['one', 'two'], 'openai/small');
    await tell(manual, [filling], 'openai/test');
    expect(await visible(runtime, manual)).not.toContain('data-compaction');
    for (const { id } of [alone, manual]) {
      const { rows } = await runtime.db.query('SELECT model FROM chat_sessions WHERE session_id = $1', [id]);
      expect(rows).toEqual([{ model: 'openai/test' }]);
    }
  });

  it('X10 that fails does not go back to a model that can no longer be called', async () => {
    runtime.model.script(talking());
    const session = await open('talker');
    await tell(session, [words(100, 'one'), words(2_500, 'two')], 'openai/test');
    await runtime.db.query(
      `UPDATE chat_messages SET metadata = jsonb_set(metadata, '{steps,-1,model}', '"gone/test"')
        WHERE session_id = $1 AND role = 'assistant'`,
      [session.id],
    );
    const run = await session.ended(await send(session, 'three', 'openai/small'));
    expect(run.error_message).toMatch(/^The conversation has about \d,?\d+ tokens, and openai\/small takes 2000: /);
    const { rows } = await runtime.db.query('SELECT model FROM chat_sessions WHERE session_id = $1', [session.id]);
    expect(rows).toEqual([{ model: 'openai/small' }]);
  });
});
