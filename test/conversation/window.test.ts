// How much of the window is in use (the provider's count of the newest step, and what came after it counted here), and what
// follows from that before a step.
import type { UIMessage } from 'ai';
import { expect, it } from 'vitest';
import { type JudgedStep, judgeWindow, windowInUse } from '../../activities/window/window.ts';
import { countTokens } from '../../agent/compaction/tokens.ts';
import { windowLimit } from '../../agent/definition/compaction-schema.ts';
import { createModels } from '../../agent/models/models.ts';
import { agent, CATALOG } from './kit.ts';

const text = (id: string, role: 'user' | 'assistant', content: string): UIMessage => {
  return { id, role, parts: [{ type: 'step-start' }, { type: 'text', text: content }] };
};

const called = (output: string): UIMessage['parts'] => [
  { type: 'step-start' },
  { type: 'text', text: 'said '.repeat(100) },
  { type: 'tool-read', toolCallId: 'c', state: 'output-available', input: { at: 'x '.repeat(100) }, output },
];

const reported = (more: object = {}) => {
  return { message_id: 'a', steps: 1, model: 'openai/test', tokens: 1_000, is_current: true, ...more };
};

const prompt = (...messages: UIMessage[]) => ({ system: 'word '.repeat(50), tools: '[]', messages });

it('U4 the newest step’s usage, all five numbers, and the counted tokens of the messages after it', async () => {
  const after = text('u2', 'user', 'word '.repeat(100));
  const used = await windowInUse(prompt(text('u', 'user', 'x'), text('a', 'assistant', 'y'), after), reported(), 0);
  expect(used).toBe(1_000 + (await countTokens('word '.repeat(100))) + 4 + 4);
});

it('U4 of the step’s own answer only the outcomes of its calls, which came later', async () => {
  const answer: UIMessage = { id: 'a', role: 'assistant', parts: called('out '.repeat(100)) };
  const used = await windowInUse(prompt(text('u', 'user', 'x'), answer), reported(), 0);
  expect(used).toBe(1_000 + (await countTokens('out '.repeat(100))) + 4);
});

it.each([
  ['none has been settled', null],
  ['the conversation before it has changed', reported({ is_current: false })],
  ['its provider counted nothing', reported({ tokens: 0 })],
  ['the model does not see it again', reported({ message_id: 'hidden' })],
])('U4 without a step to rely on, because %s, prompt and messages are counted', async (_why, step) => {
  const used = await windowInUse(prompt(text('u', 'user', 'word '.repeat(100)), text('a', 'assistant', 'y')), step, 0);
  expect(used).toBeGreaterThan(150);
  expect(used).toBeLessThan(175);
});

it('U4 nothing is counted while the bytes are fewer than the threshold', async () => {
  const short = prompt(text('u', 'user', 'x'), text('a', 'assistant', 'y'));
  expect(await windowInUse(short, reported(), 1_100)).toBeUndefined();
  expect(await windowInUse(short, reported(), 1_000)).toBe(1_004);
});

/** Judges a step whose conversation has so many tokens, after two turns that could be summarized. */
function judged(tokens: number, models: Pick<JudgedStep, 'model' | 'former'>, settings: object = {}) {
  const messages = [
    ...['u1', 'u2'].flatMap((id) => [text(id, 'user', 'x'), text(`${id}-answer`, 'assistant', 'y')]),
    text('a', 'assistant', 'z'),
    text('u3', 'user', ''),
  ];
  return judgeWindow({
    ...models,
    agent: agent('talker', settings),
    prompt: { system: '', tools: '', messages },
    messageId: 'u3',
    step: 0,
    // The end of the answer and the message after it take four tokens each.
    reported: reported({ tokens: tokens - 8 }),
    mayAsk: true,
    noTurns: false,
    isChanged: false,
  });
}

// More than 20,000 are not within the usual reserve, and at most half of the window is told.
it.each([
  [400, 127_600],
  [50_000, 78_000],
  [128_000, 64_000],
])(
  'X5 U4 with max_output %i in PERDURE_MODELS, it is compacted where its limit is for readers: at %i',
  async (max_output, at) => {
    const catalog = { 'openai/told': { context_limit: 128_000, max_output } };
    const model = createModels({ openaiBaseUrl: 'http://127.0.0.1:1', catalog }).resolve('openai/told');
    expect(windowLimit(model, agent('talker'))).toBe(at);
    expect((await judged(at, { model, former: model })).kind).toBe('compact');
    expect((await judged(at - 1, { model, former: model })).kind).toBe('fits');
    expect(at + model.ownMaxOutput!).toBe(model.contextLimit);
  },
);

// Usable are 1,600 of `small`, 2,600 of `mini`, 7,600 of `test`.
it.each([
  ['a model whose smaller window does not hold the conversation compacts', 'test', 2_600, { auto: false }, 'compact'],
  ['a model whose smaller window holds it does not', 'test', 2_599, { auto: false, compact_at: 0.5 }, 'fits'],
  ['a model with an equal window is judged like any step', 'mini', 2_600, { auto: false }, 'fits'],
  ['a model with a larger window is judged like any step', 'small', 2_600, { auto: false }, 'fits'],
  ['a model with a larger window compacts at the threshold of all steps', 'small', 2_600, {}, 'compact'],
  ['a larger one, beyond what the model takes', 'small', 3_000, { auto: false }, 'too_long'],
  ['one after a model that can no longer be called', undefined, 2_600, { auto: false }, 'fits'],
])('X10 a change to %s', async (_to, former, tokens, settings, expected) => {
  const models = createModels({ openaiBaseUrl: 'http://127.0.0.1:1', catalog: CATALOG });
  const model = models.resolve('openai/mini');
  const judgement = await judged(
    tokens,
    { model, former: former === undefined ? undefined : models.resolve(`openai/${former}`) },
    settings,
  );
  expect(judgement.kind).toBe(expected);
  expect('former' in judgement).toBe(false);
});
