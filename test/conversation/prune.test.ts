// Pruning takes large tool outputs out of what the model sees; what is stored stays.
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  callTool,
  fail,
  failContextLength,
  type ModelAction,
  report,
  say,
} from '../../tools/test-kit/model-actions.ts';
import type { ModelScript } from '../../tools/test-kit/model-server.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { refusalOf } from '../faults/answered.ts';
import {
  agent,
  byHand,
  isSummary,
  messages,
  requests,
  send,
  startSmall,
  talking,
  tell,
  visible,
  words,
} from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startSmall({
    agents: [
      agent('keeps-one', { prune_keep: 1, prune_min_tokens: 50 }),
      agent('keeps-none', { prune_keep: 0, prune_min_tokens: 50 }),
      agent('early', { prune_keep: 0, prune_min_tokens: 50, prune_at: 0.5 }),
      agent('only-prunes', { auto: false, compact_at: 0.3, prune_keep: 0, prune_min_tokens: 50, prune_at: 0.5 }),
    ],
  });
  runtime.model.script(talking());
});

const open = (id: string) => TestSession.open(runtime, { agent: id });

/** What the model saw last. */
const seen = () => JSON.stringify(requests(runtime, 'turn').at(-1)!.messages);
const stubs = () => seen().match(/<output pruned, \d+ tokens>/g) ?? [];

const prune = (session: TestSession) => byHand(session, updates.prune);

describe('a prune by hand', () => {
  it('X9 replaces large outputs by their size, except small, protected and the newest ones; stored outputs stay', async () => {
    const session = await open('keeps-one');
    await tell(session, ['read old 100', 'todo list 100', 'read tiny 5', 'read new 100']);
    await prune(session);
    await tell(session, ['and now?']);
    expect(stubs()).toEqual([expect.stringMatching(/, 10\d tokens/)]);
    for (const kept of ['list: word', 'tiny: word', 'new: word']) expect(seen()).toContain(kept);
    expect(seen()).not.toContain('old: word');
    expect(JSON.stringify(await messages(runtime, session))).toContain('old: word');
    expect(await refusalOf(session.command(updates.prune))).toMatchObject({ code: 'NothingToPrune' });
  });

  it('X9 a rewind to before it brings the outputs back, and an un-rewind takes them out again', async () => {
    const session = await open('keeps-none');
    await tell(session, ['read a 100', 'two']);
    await prune(session);
    const two = (await messages(runtime, session)).find(({ parts }) => parts[0]?.text === 'two')!;
    await session.command(updates.rewind, { message_id: two.id });
    await session.command(updates.unrewind);
    await tell(session, ['three']);
    expect(stubs()).toHaveLength(1);
    expect(await refusalOf(session.command(updates.prune))).toMatchObject({ code: 'NothingToPrune' });
    await session.command(updates.rewind, { message_id: two.id });
    await tell(session, ['two again']);
    expect(stubs()).toEqual([]);
    expect(seen()).toContain('a: word');
  });

  it('X9 without a large output it is NothingToPrune: tokens count, not bytes', async () => {
    const session = await open('keeps-none');
    await tell(session, ['one', 'read a 1', 'read b 40']);
    const before = await messages(runtime, session);
    expect(await refusalOf(session.command(updates.prune))).toMatchObject({ code: 'NothingToPrune' });
    expect(await messages(runtime, session)).toEqual(before);
    await tell(session, ['read c 60']);
    await prune(session);
    expect(await refusalOf(session.command(updates.prune))).toMatchObject({ code: 'NothingToPrune' });
  });
});

describe('a prune by itself', () => {
  it('X9 before a compaction, which it makes needless; newest outputs first, until enough is freed', async () => {
    const session = await open('keeps-none');
    await tell(session, ['read a 400', 'read b 400', 'three']);
    const from = runtime.model.requests.length;
    await tell(session, [words(700, 'four')]);
    expect(requests(runtime, 'summary', from)).toEqual([]);
    expect(await visible(runtime, session)).toContain('data-prune');
    expect(stubs()).toHaveLength(1);
    expect(seen()).toContain('a: word');
    expect(seen()).not.toContain('b: word');
  });

  it('X9 at prune_at, a share of usable', async () => {
    const session = await open('early');
    await tell(session, ['read a 400', words(450, 'two')]);
    expect(stubs()).toHaveLength(1);
  });

  it('X9 at prune_at also with auto: false, although the conversation is above compact_at', async () => {
    const session = await open('only-prunes');
    const from = runtime.model.requests.length;
    await tell(session, ['read a 400', 'two']);
    // Above compact_at, 480 tokens, and below prune_at, 800.
    expect(stubs()).toEqual([]);
    expect(await visible(runtime, session)).not.toContain('data-prune');
    await tell(session, [words(450, 'three')]);
    expect(stubs()).toHaveLength(1);
    expect(await visible(runtime, session)).toContain('data-prune');
    expect(requests(runtime, 'summary', from)).toEqual([]);
  });

  it('X5 after a summary that is not enough: outputs of what stays, not those that the summary has replaced', async () => {
    const session = await open('keeps-none');
    await tell(session, [`read a 200 ${words(100, 'one')}`, 'two', 'three']);
    const asked = ['read b 300', 'read c 850'];
    const answers = talking();
    runtime.model.script((request, index) => {
      const current = request.messages.findLastIndex(({ role }) => role === 'user');
      const next = asked[request.messages.slice(current).filter(({ role }) => role === 'tool').length];
      if (next === undefined || isSummary(request)) return answers(request, index);
      const told = { ...request, messages: [...request.messages, { role: 'user' as const, content: next }] };
      return answers(told, index);
    });
    const from = runtime.model.requests.length;
    await tell(session, [words(400, 'four')]);
    runtime.model.script(answers);
    expect(requests(runtime, 'summary', from)).toHaveLength(1);
    const all = await messages(runtime, session);
    const callOf = (what: string) =>
      all.flatMap(({ parts }) => parts).find(({ output }) => String(output).startsWith(`${what}: `))!['toolCallId'];
    const pruned = all.flatMap(({ parts }) => (parts[0]?.type === 'data-prune' ? [parts[0].data!.outputs] : []));
    expect(pruned).toEqual([[{ tool_call_id: callOf('b'), tokens: expect.any(Number) as number }]]);
    expect(seen()).toContain('c: word');
  });

  it('X5 X9 nothing more after a summary that frees enough, though not with room to spare', async () => {
    const session = await open('keeps-none');
    await tell(session, [words(200, 'one'), 'two', 'read a 100', words(1_440, 'four')]);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
    expect(await visible(runtime, session)).not.toContain('data-prune');
  });

  it('X5 in mid-turn: older outputs of the turn that is running, when it alone is too large', async () => {
    const session = await open('keeps-none');
    const asked = ['a', 'b', 'c'];
    const answers = talking();
    runtime.model.script((request, index) => {
      const outputs = request.messages.filter(({ role }) => role === 'tool').length;
      const name = asked[outputs];
      if (name === undefined) return answers({ ...request, messages: [...request.messages] }, index);
      const last = { role: 'user' as const, content: `read ${name} 600` };
      return answers({ ...request, messages: [...request.messages, last] }, index);
    });
    await tell(session, ['read all']);
    runtime.model.script(answers);
    expect(stubs().length).toBeGreaterThan(0);
    expect(seen()).toContain('c: word');
  });
});

describe('a prune with a compaction that is not enough, or fails', () => {
  afterEach(() => runtime.model.script(talking()));

  const note = async (session: TestSession, run: number) =>
    ((await session.run(run)) as unknown as { compaction: Record<string, unknown> }).compaction;

  it('X9 the summary fails: what can be pruned is pruned, and the turn that fits then goes on', async () => {
    runtime.model.script(talking(() => [fail(401)]));
    const session = await open('keeps-none');
    await tell(session, [words(300, 'one'), words(300, 'two'), 'read a 300']);
    // Together they are longer than the window; without the output they fit, although not with room to spare.
    const last = (await tell(session, [words(1_200, 'four')]))!;
    expect(await note(session, last.seq)).toMatchObject({
      ...{ state: 'failed', warning: expect.stringContaining('could not be compacted') as string },
      tokens: expect.any(Number) as number,
    });
    expect(stubs()).toHaveLength(1);
  });

  const refusing = (summary?: ModelScript): ModelScript => {
    const answers = talking(summary);
    return (request, index) => {
      const isFive = JSON.stringify(request.messages.at(-1)).includes('five') && !isSummary(request);
      const isLong = JSON.stringify(request.messages).includes('a: word');
      return isFive && isLong ? [failContextLength()] : answers(request, index);
    };
  };

  it.each<[string, ModelScript | undefined, string]>([
    ['as well as a summary of what does not', undefined, 'summarized'],
    ['also without a summary', () => [fail(401)], 'failed'],
    ['also if a summary is not worth having', () => [say(words(2_000, 'long'))], 'failed'],
    ['also if the history is too long for any summarizer', () => [failContextLength()], 'failed'],
  ])(
    'X9 a provider that refuses the conversation as too long: outputs that stay are pruned, %s',
    async (_name, summary, state) => {
      runtime.model.script(refusing(summary));
      const session = await open('keeps-none');
      await tell(session, [words(100, 'one'), words(100, 'two'), 'three', 'read a 100']);
      const last = (await tell(session, ['five']))!;
      expect(await note(session, last.seq)).toMatchObject({ state });
      expect(stubs()).toHaveLength(1);
      expect((await visible(runtime, session)).includes('data-compaction')).toBe(state === 'summarized');
    },
  );

  /** Of a provider that counts fewer tokens than the worker does. */
  const sparing = (last: () => ModelAction[] | undefined): ModelScript => {
    const answers = talking();
    return async (request, index) => {
      const actions = JSON.stringify(request.messages.at(-1)).includes('four') ? last() : undefined;
      const said = actions ?? ((await answers(request, index)) as ModelAction[]);
      const input = Math.ceil(JSON.stringify(request.messages).length / 8);
      return said.map((each) => (each.do === 'usage' ? report({ input, output: 10 }) : each));
    };
  };

  const nearlyFull = ['read a 300', ...['1', '2', '3', '4', '5', '6', '7'].map((topic) => words(325, topic))];

  it('X9 after a prune the provider decides whether the conversation fits, and not the worker’s estimate', async () => {
    runtime.model.script(sparing(() => undefined));
    const session = await open('keeps-none');
    await tell(session, [...nearlyFull, words(250, 'four')]);
    expect(await visible(runtime, session)).toContain('data-prune');
    expect(stubs()).toHaveLength(1);
  });

  it('X5 after a summary the provider decides whether the conversation fits, if there is nothing to prune', async () => {
    runtime.model.script(sparing(() => undefined));
    const session = await open('keeps-none');
    await tell(session, [words(200, 'one'), 'two', words(1_300, 'three'), words(1_200, 'four')]);
    expect((await visible(runtime, session))[0]).toBe('data-compaction');
    expect(seen()).toContain('three data');
  });

  it('X9 X8 after a prune, a message that is longer than the window by any count is refused without a call', async () => {
    const session = await open('keeps-none');
    await tell(session, ['read a 100', 'two']);
    const from = runtime.model.requests.length;
    const run = await session.ended(await send(session, words(4_000, 'four')));
    expect(run).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
    expect(await visible(runtime, session)).toContain('data-prune');
    expect(runtime.model.requests.slice(from)).toEqual([]);
  });

  it('X9 after a prune, a provider that refuses the conversation all the same ends the turn with advice', async () => {
    runtime.model.script(sparing(() => [failContextLength()]));
    const session = await open('keeps-none');
    await tell(session, nearlyFull);
    const from = runtime.model.requests.length;
    const run = await session.ended(await send(session, words(250, 'four')));
    expect(run).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
    expect(runtime.model.requests.slice(from)).toHaveLength(1);
  });
});

describe('a prune of the turn that is running', () => {
  afterEach(() => runtime.model.script(talking()));

  /** A turn that calls these tools, one in each step, and then gets what `last` gives. */
  function calling(calls: [tool: string, words: number, tokens: number][], last: () => ModelAction[]): void {
    runtime.model.script((request) => {
      const next = calls[request.messages.filter(({ role }) => role === 'tool').length];
      if (next === undefined) return last();
      const [tool, size, input] = next;
      return [callTool('call_1', tool, { what: 'a', words: size }), report({ input, output: 10 })];
    });
  }
  const ANSWER = [say('Read.'), report({ input: 900, output: 10 })];

  it('X9 a step that is repeated, since its provider was overloaded, is not judged by the worker’s count', async () => {
    const session = await open('keeps-none');
    let asked = 0;
    // The provider counts fewer tokens than the worker does, by whose count the second output alone is too long.
    calling(
      [
        ['read', 300, 200],
        ['read', 2_100, 200],
      ],
      () => (asked++ === 0 ? [fail(503)] : ANSWER),
    );
    await tell(session, ['read all']);
    expect(asked).toBe(2);
    expect(stubs()).toHaveLength(1);
  });

  it('X5 once a provider has counted what is left, a later output that is too long ends the turn without a call', async () => {
    const session = await open('keeps-none');
    calling(
      [
        ['read', 300, 400],
        ['todo', 1_250, 400],
        ['read', 2_100, 1_400],
      ],
      () => ANSWER,
    );
    const from = runtime.model.requests.length;
    const run = await session.ended(await send(session, 'read all'));
    expect(run).toMatchObject({ state: 'error', error_code: 'ContextTooLong' });
    expect(await visible(runtime, session)).toContain('data-prune');
    expect(runtime.model.requests.slice(from)).toHaveLength(3);
  });
});

describe('the prefix of consecutive requests', () => {
  it('X9 is the same, byte for byte, until a prune or compaction changes it once', async () => {
    const session = await open('keeps-none');
    const from = runtime.model.requests.length;
    await tell(session, ['read a 100', 'two', 'read b 100']);
    await prune(session);
    await tell(session, ['four', 'read c 100', 'six']);
    const asked = requests(runtime, 'turn', from).map(({ messages: sent }) => JSON.stringify(sent).slice(0, -1));
    const changes = asked.slice(1).filter((request, at) => !request.startsWith(asked[at]!));
    expect(changes).toHaveLength(1);
  });
});
