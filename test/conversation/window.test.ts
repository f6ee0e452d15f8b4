// How much of the window is in use: the provider's count of the newest step, and what came after it counted here.
import type { UIMessage } from 'ai';
import { expect, it } from 'vitest';
import { windowInUse } from '../../activities/window/window.ts';
import { countTokens } from '../../agent/compaction/tokens.ts';

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
