// A compaction that does not go as it should: each failure ends in a compacted conversation, an uncompacted turn with a
// warning, or an error with advice; never in a loop.
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { SUMMARIZER } from '../../agent/compaction/summarizer.ts';
import { defineAgent } from '../../agent/definition/define.ts';
import {
  fail,
  failContextLength,
  finish,
  hang,
  type ModelAction,
  report,
  say,
  think,
} from '../../tools/test-kit/model-actions.ts';
import type { ModelScript } from '../../tools/test-kit/model-server.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { agent, CATALOG, messages, requests, send, startSmall, SUMMARY, talking, tell, visible, words } from './kit.ts';

const only = (recovery: object) => ({
  summarizer: 'tiny',
  smart_recovery: { prune_tool_outputs: false, chunked_summarize: false, drop_middle: false, ...recovery },
  prune_keep: 100,
});

const ALL_PARTS_MS = 2_000;
/** One part is in time, with the rest of the time to spare; two are not, however quick the machine is. */
const PART_MS = 0.55 * ALL_PARTS_MS;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startSmall({
    catalog: {
      ...CATALOG,
      'openai/tiny': { context_limit: 1_000, max_output: 200 },
      'openai/wordy': { context_limit: 1_000, max_output: 1_000 },
      'openai/known': { context_limit: 64_000, max_output: 16_000, reasoning: true },
      'openai/unknown': { context_limit: 64_000, max_output: 16_000 },
    },
    agents: [
      agent('talker'),
      agent('hasty', { summarizer_timeout: 300 }),
      agent('once', { retry_on_transient: 0 }),
      agent('unable', { summarizer: 'missing' }),
      agent('splitting', { split_last_turn: true, prune_keep: 100 }),
      agent('pruning', only({ prune_tool_outputs: true })),
      agent('hasty-chunking', { ...only({ chunked_summarize: true }), summarizer_timeout: ALL_PARTS_MS }),
      agent('brief', {}, { wall_clock_ms: 1_000 }),
      agent('chunking', only({ chunked_summarize: true })),
      agent('dropping', only({ drop_middle: true })),
      agent('helpless', only({})),
      agent('wordy', { ...only({ chunked_summarize: true }), summarizer: 'unlimited' }),
      ...['known', 'unknown'].flatMap((model) => [
        agent(`reasoning-${model}`, { summarizer: model }),
        defineAgent({ ...SUMMARIZER, id: model, model: `openai/${model}`, max_output_tokens: undefined }),
      ]),
      // Less and more than what a summary replaces.
      ...[300, 4_000].flatMap((most) => [
        agent(`capped-${most}`, { summarizer: `at-most-${most}` }),
        defineAgent({ ...SUMMARIZER, id: `at-most-${most}`, model: 'openai/known', max_output_tokens: most }),
      ]),
      defineAgent({ ...SUMMARIZER, id: 'tiny', model: 'openai/tiny' }),
      defineAgent({ ...SUMMARIZER, id: 'missing', model: 'elsewhere/none' }),
      defineAgent({ ...SUMMARIZER, id: 'unlimited', model: 'openai/wordy', max_output_tokens: undefined }),
    ],
  });
});

/** A session of this agent in which the next message, of 500 tokens, needs a compaction. */
async function full(id: string, summary?: ModelScript): Promise<TestSession> {
  runtime.model.script(talking(summary));
  const session = await TestSession.open(runtime, { agent: id });
  await tell(session, [words(550, 'one'), words(550, 'two'), 'three', 'four']);
  return session;
}

const summaries = (from: number) => requests(runtime, 'summary', from);

/** Answers the first `n` summarizer requests with these actions, later ones with a summary. */
function first(n: number, ...actions: ModelAction[]) {
  let asked = 0;
  return () => (asked++ < n ? actions : [say(SUMMARY)]);
}

const CUT = [say('## Goal\nTalk.\n\n## Progress\nThey tal'), finish('length')];

/** Cut once; later calls are refused for the moment. */
function cutThenFailing() {
  let asked = 0;
  return () => (asked++ === 0 ? CUT : [fail(503)]);
}

/** What the run's row says of its compaction. */
async function compaction(session: TestSession, run: number): Promise<Record<string, unknown>> {
  return ((await session.run(run)) as unknown as { compaction: Record<string, unknown> }).compaction;
}

/** Sends the message that needs a compaction, and returns what came of it. */
async function next(session: TestSession) {
  const from = runtime.model.requests.length;
  const run = await session.ended(await send(session, words(500, 'five')));
  return { run, asked: summaries(from).length, compaction: await compaction(session, run.seq) };
}

describe('a summarizer that fails', () => {
  it.each<[string, ModelAction[]]>([
    ['once', [fail(503)]],
    ['by breaking off its summary', [say('## Goal'), finish('insufficient_system_resource')]],
  ])('X8 %s: it is asked again', async (_name, failure) => {
    const session = await full('talker', first(1, ...failure));
    expect(await next(session)).toMatchObject({
      run: { state: 'finished' },
      asked: 2,
      compaction: { state: 'summarized' },
    });
  });

  it('X8 retry_on_transient: it is not asked again, and the turn goes on uncompacted with a warning', async () => {
    const session = await full('once', first(1, fail(503)));
    const { run, asked, compaction: found } = await next(session);
    expect({ state: run.state, asked }).toEqual({ state: 'finished', asked: 1 });
    expect(found).toMatchObject({
      state: 'failed',
      warning: 'The conversation could not be compacted: the model provider is unavailable (503)',
    });
    expect(await visible(runtime, session)).not.toContain('data-compaction');
    // The next turn tries again, and succeeds.
    await tell(session, ['six']);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
  });

  it('X8 always: it is asked three times a turn, whatever number of steps the turn has', async () => {
    const session = await full('talker', first(99, fail(503)));
    const from = runtime.model.requests.length;
    await tell(session, [`${words(450, 'five')} read a 1`]);
    expect(summaries(from)).toHaveLength(3);
  });

  it('X8 does not answer in time: the turn waits for summarizer_timeout', async () => {
    const session = await full('hasty', first(99, hang()));
    const { run, compaction: found } = await next(session);
    expect(run.state).toBe('finished');
    expect(found['warning']).toContain('did not answer in time');
  });

  it('X8 answers each part in time, but not all of them: the turn waits for summarizer_timeout in all', async () => {
    const session = await full('hasty-chunking', async () => {
      await delay(PART_MS);
      return [say(SUMMARY)];
    });
    const { run, compaction: found } = await next(session);
    expect(run.state).toBe('finished');
    expect(found).toMatchObject({
      state: 'failed',
      warning: expect.stringContaining('did not answer in time') as string,
    });
  });

  it('X8 does not answer within the turn’s own limit: the turn ends at it', async () => {
    const session = await full('talker', first(99, hang()));
    await runtime.db.query(`UPDATE chat_sessions SET agent = 'brief' WHERE session_id = $1`, [session.id]);
    const { run } = await next(session);
    expect(run).toMatchObject({ state: 'error', error_code: 'LimitReached' });
    expect(run.error_message).toContain('wall_clock');
  });

  it('X8 for good, such as a refused key: the turn goes on uncompacted at once', async () => {
    const session = await full('talker', first(99, fail(401)));
    expect(await next(session)).toMatchObject({
      run: { state: 'finished' },
      asked: 1,
      compaction: { state: 'failed' },
    });
  });
});

describe('a summarizer whose model is not configured', () => {
  const named = expect.stringContaining('the model "elsewhere/none" is not configured; configured: ') as string;

  it('X8 the turn goes on uncompacted, and the warning names the model', async () => {
    const session = await full('unable');
    const { run, asked, compaction: found } = await next(session);
    expect({ state: run.state, asked }).toEqual({ state: 'finished', asked: 0 });
    expect(found).toMatchObject({ state: 'failed', warning: named });
    expect(runtime.logs).toContainEqual(
      expect.objectContaining({ session: session.id, run: run.seq, warning: named }) as object,
    );
    expect((await messages(runtime, session)).filter(({ hidden }) => hidden)).toEqual([]);
    expect(await visible(runtime, session)).not.toContain('data-compaction');
  });

  it('X8 by hand it is ModelNotConfigured: nothing is hidden, and no message is written', async () => {
    const session = await full('unable');
    const [before, from] = [await messages(runtime, session), runtime.model.requests.length];
    const { run_seq: run } = await session.command(updates.compact);
    expect(await session.ended(run)).toMatchObject({
      ...{ state: 'error', error_code: 'ModelNotConfigured' },
      error_message: named,
    });
    expect(await messages(runtime, session)).toEqual(before);
    expect(runtime.model.requests).toHaveLength(from);
  });
});

describe('a summary', () => {
  it.each<[string, ModelAction]>([
    ['its status', fail(400, { code: 'content_filter', message: 'flagged' })],
    ['its finish reason', finish('content_filter')],
  ])('X8 R6 by a content filter, by %s: the warning says so', async (_by, action) => {
    const session = await full('talker', first(1, action));
    const { asked, compaction: found } = await next(session);
    expect(asked).toBe(1);
    const why = 'the content filter of the summarizer’s provider refused it';
    expect(found).toMatchObject({
      state: 'failed',
      warning: `The conversation could not be compacted: ${why}`,
    });
  });

  it('X8 that is longer than what it replaces is not used; its tokens are counted', async () => {
    const long = [say('long '.repeat(2_000)), report({ input: 900, output: 2_000 })];
    const session = await full('talker', () => long);
    const { run, compaction: found } = await next(session);
    expect(run.state).toBe('finished');
    expect(found).toMatchObject({ state: 'failed', warning: expect.stringContaining('longer than what') as string });
    expect(await visible(runtime, session)).not.toContain('data-compaction');
    const kept = (await messages(runtime, session)).find(({ parts }) => parts[0]?.type === 'data-compaction');
    expect(kept).toMatchObject({ hidden: true, metadata: { usage: { input: 900, output: 2_000 } } });
  });

  const cut = (n: number) => first(n, ...CUT);

  it('X7 that reaches the limit of its output: a shorter one is asked for', async () => {
    const session = await full('talker', cut(1));
    const from = runtime.model.requests.length;
    const { asked, compaction: found } = await next(session);
    expect({ asked, found }).toEqual({ asked: 2, found: expect.not.objectContaining({ warning: expect.anything() }) });
    const told = summaries(from).map(({ messages: [system] }) =>
      JSON.stringify(system).includes('Write a much shorter one'),
    );
    expect(told).toEqual([false, true]);
    const summary = (await messages(runtime, session)).find(({ hidden }) => !hidden);
    expect(summary!.parts[0]!.data!.summary).toBe(SUMMARY);
  });

  it.each([
    ['also the second time', 'talker', cut(9), 2],
    ['and then the provider fails', 'talker', cutThenFailing(), 3],
    ['and no other may be asked for', 'once', cut(9), 1],
  ])(
    'X7 X8 that reaches the limit of its output, %s: it is used up to the last whole line, with a warning',
    async (_name, id, script, calls) => {
      const session = await full(id, script);
      const { run, asked, compaction: found } = await next(session);
      expect({ asked, state: run.state, found }).toMatchObject({
        ...{ asked: calls, state: 'finished' },
        found: { state: 'summarized', warning: expect.stringContaining('its end is missing') as string },
      });
      const summary = (await messages(runtime, session)).find(({ hidden }) => !hidden);
      expect(summary!.parts[0]!.data!.summary).toBe(
        '## Goal\nTalk.\n\n## Progress\n\n[The rest of this summary was cut off.]',
      );
    },
  );

  it('X8 that is cut in its only paragraph is used as far as it goes', async () => {
    const session = await full('once', first(1, say('## Goal\nThey talked about many thi'), finish('length')));
    await next(session);
    const summary = (await messages(runtime, session)).find(({ hidden }) => !hidden);
    expect(summary!.parts[0]!.data!.summary).toMatch(/^## Goal\nThey talked about many thi\n\n\[/);
  });

  it('X7 of a model that reasons: its reasoning does not take the place of the summary', async () => {
    const session = await full('reasoning-known');
    const from = runtime.model.requests.length;
    expect(await next(session)).toMatchObject({ asked: 1, compaction: { state: 'summarized' } });
    expect(summaries(from)[0]!.max_tokens).toBeGreaterThan(8_000);
  });

  it.each([300, 4_000])(
    'X7 of a model that reasons: an own summarizer with %i tokens has these for all output',
    async (most) => {
      const session = await full(`capped-${most}`);
      const from = runtime.model.requests.length;
      expect(await next(session)).toMatchObject({ asked: 1, compaction: { state: 'summarized' } });
      expect(summaries(from)[0]!.max_tokens).toBe(most);
    },
  );

  it('X7 of a model that is not known to reason: the second call leaves room for it', async () => {
    const session = await full('reasoning-unknown', first(1, think('Hm.'), finish('length')));
    const from = runtime.model.requests.length;
    expect(await next(session)).toMatchObject({ asked: 2, compaction: { state: 'summarized' } });
    const [one, two] = summaries(from).map(({ max_tokens: most }) => most as number);
    expect(two! - one!).toBe(8_000);
  });

  it('X8 that is empty counts as a failure', async () => {
    const session = await full('once', first(1, say(' ')));
    expect(await next(session)).toMatchObject({ run: { state: 'finished' }, compaction: { state: 'failed' } });
  });
});

describe('a history that is longer than the summarizer can take', () => {
  it('X8 prune_tool_outputs: it is summarized without them', async () => {
    runtime.model.script(talking());
    const session = await TestSession.open(runtime, { agent: 'pruning' });
    await tell(session, ['read a 900', 'two', 'three']);
    const from = runtime.model.requests.length;
    await tell(session, [words(700, 'four')]);
    expect(JSON.stringify(summaries(from).at(-1)!.messages)).toMatch(/<output pruned, 9\d\d tokens>/);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
  });

  it('X8 chunked_summarize: its parts are summarized, and the summaries joined', async () => {
    const session = await full('chunking');
    const { run, asked } = await next(session);
    expect(run.state).toBe('finished');
    expect(asked).toBeGreaterThan(1);
    const summary = (await messages(runtime, session)).find(({ hidden }) => !hidden);
    expect(summary!.parts[0]!.data!.summary).toBe(Array(asked).fill(SUMMARY).join('\n\n'));
    expect(summary!.metadata['steps']).toHaveLength(asked);
  });

  it('X8 a summarizer whose output may be as long as its window still reads: it has half of the window', async () => {
    const session = await full('wordy');
    const from = runtime.model.requests.length;
    expect(await next(session)).toMatchObject({ run: { state: 'finished' }, compaction: { state: 'summarized' } });
    expect(new Set(summaries(from).map(({ max_tokens: most }) => most))).toEqual(new Set([500]));
  });

  it('X8 drop_middle: its head and tail are summarized', async () => {
    const session = await full('dropping');
    const from = runtime.model.requests.length;
    expect(await next(session)).toMatchObject({ run: { state: 'finished' }, asked: 1 });
    const text = JSON.stringify(summaries(from)[0]!.messages);
    expect(text).toContain('[the middle is left out]');
    expect(text).toContain('one data');
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
  });

  it('X8 none of them: the turn ends with advice', async () => {
    const session = await full('helpless');
    const { run, asked, compaction: found } = await next(session);
    expect(run).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
    expect(run.error_message).toMatch(/branch from an earlier message/);
    expect({ asked, found }).toEqual({ asked: 0, found: { state: 'failed' } });
  });

  it('X8 by its provider’s word: the recoveries follow, and end', async () => {
    const session = await full('talker', () => [failContextLength()]);
    const { run, asked } = await next(session);
    expect(run).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
    // As it is, the first part of it, and without its middle.
    expect(asked).toBe(3);
  });
});

describe('what cannot be stored', () => {
  it('X8 the turn ends, and the summary is made once', async () => {
    const session = await full('talker');
    // No position is left before the turns that stay.
    await runtime.db.query(
      `INSERT INTO chat_messages (id, session_id, position, role, hidden_at) VALUES ('last', $1, 2999, 'assistant', now())`,
      [session.id],
    );
    const { run, asked } = await next(session);
    expect({ asked, state: run.state, code: run.error_code }).toEqual({ asked: 1, state: 'error', code: 'Internal' });
  });
});

describe('turns that are too long to stay', () => {
  it('X6 the newest two are over their share: one stays, with a warning', async () => {
    runtime.model.script(talking());
    const session = await TestSession.open(runtime, { agent: 'talker' });
    await tell(session, ['zero', words(600, 'one'), words(600, 'two')]);
    const run = await session.ended(await send(session, words(500, 'three')));
    expect(run.state).toBe('finished');
    expect(await compaction(session, run.seq)).toMatchObject({
      turns: 2,
      warning: 'the newest turns are too long, so only the last one stays as it is',
    });
    expect((await visible(runtime, session)).map((text) => text.split(' ')[0])).toEqual([
      ...['data-compaction', 'two', 'You', 'three', 'You'],
    ]);
  });

  it('X6 split_last_turn: of one that is over it alone, the message and the final text stay', async () => {
    runtime.model.script(talking());
    const session = await TestSession.open(runtime, { agent: 'splitting' });
    await tell(session, [words(200, 'zero'), 'read a 700']);
    const from = runtime.model.requests.length;
    await tell(session, [words(700, 'three')]);
    const [asked] = requests(runtime, 'turn', from);
    const shown = JSON.stringify(asked!.messages);
    expect(shown).toContain('read a 700');
    expect(shown).toContain('You said: read a 700');
    expect(shown).not.toContain('word word');
    expect(asked!.messages.some(({ tool_calls: calls }) => calls !== undefined)).toBe(false);
  });

  it('X8 a single message larger than the window: advice without a call, and an edit makes the session work', async () => {
    runtime.model.script(talking());
    const session = await TestSession.open(runtime, { agent: 'talker' });
    await tell(session, ['one']);
    const from = runtime.model.requests.length;
    const large = await session.accept(words(3_000, 'two'));
    await session.wake(large.run, large.message);
    const run = await session.ended(large.run);
    expect(run).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
    expect(run.error_message).toMatch(/edit the last message to a shorter one/);
    expect(runtime.model.requests.slice(from)).toEqual([]);
    expect((await session.ended(await session.edit(large.message, 'short'))).state).toBe('finished');
  });
});
