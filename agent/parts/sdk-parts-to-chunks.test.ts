import type { LanguageModelStreamPart, UIMessageChunk } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { reduced } from '../../tools/test-kit/reduce.ts';
import { defineTool } from '../definition/define.ts';
import { SdkPartsToChunks } from './sdk-parts-to-chunks.ts';

type Part = LanguageModelStreamPart;

const write = defineTool({
  name: 'write',
  description: 'Writes.',
  input: z.object({ path: z.string() }),
  execute: () => null,
});

/** The chunks of a step of these parts, the message that a reader makes of them, and the step's calls. */
const step = (...parts: Part[]) => stepTo('stop', ...parts);

async function stepTo(finishReason: string, ...parts: Part[]) {
  let calls = 0;
  const made = new SdkPartsToChunks([write], () => `ours_${++calls}`);
  const chunks: UIMessageChunk[] = [...parts.flatMap((part) => made.of(part)), ...made.end(finishReason)];
  return {
    chunks,
    calls: made.toolCalls,
    isCut: made.isCut,
    isEmpty: made.isEmpty,
    parts: (await reduced(chunks))?.parts.slice(1) ?? [],
  };
}

const begin = (id: string, toolName = 'write', more: object = {}): Part => ({
  type: 'tool-input-start',
  id,
  toolName,
  ...more,
});
const delta = (id: string, text: string): Part => ({ type: 'tool-input-delta', id, delta: text });

const whole = (toolCallId: string, path: string, more: object = {}) =>
  ({ type: 'tool-call', toolCallId, toolName: 'write', input: { path }, ...more }) as Part;

describe('a call with the id and name of an earlier one', () => {
  const streamed = (id: string, path: string) => [
    begin(id),
    delta(id, `{"path":`),
    delta(id, `"${path}"}`),
    whole(id, path),
  ];

  it('R6 is held back until it is complete, and dropped if it has the same input', async () => {
    const { chunks, calls } = await step(...streamed('p', 'a'), ...streamed('p', 'a'), whole('p', 'a'));
    expect(calls).toEqual([{ toolCallId: 'ours_1', toolName: 'write', input: { path: 'a' } }]);
    expect(chunks).toHaveLength(6);
    expect(chunks.filter((chunk) => 'toolCallId' in chunk && chunk.toolCallId !== 'ours_1')).toEqual([]);
  });

  it('R6 is another call with another input, sent whole', async () => {
    const { calls, parts } = await step(...streamed('p', 'a'), ...streamed('p', 'b'), whole('p', 'c'));
    expect(calls.map(({ input }) => input)).toEqual([{ path: 'a' }, { path: 'b' }, { path: 'c' }]);
    expect(parts).toMatchObject(calls.map(({ toolCallId, input }) => ({ toolCallId, input })));
  });

  it('R6 is another call if it does not become complete, and so are all calls without an id', async () => {
    const { calls } = await step(
      ...streamed('p', 'a'),
      ...streamed('p', 'a').slice(0, 2),
      ...streamed('', 'a'),
      whole('', 'a'),
    );
    expect(calls.map(({ invalid = false }) => invalid)).toEqual([false, false, false, true]);
  });
});

describe('at the output limit', () => {
  const unread = { invalid: true, input: '{"path":"a', error: new Error('no JSON') };
  const CUT = { providerMetadata: { perdure: { providerToolCallId: 'p', cut: true } } };

  it.each<[string, Part[]]>([
    ['whose input is no JSON', [begin('p'), delta('p', '{"path":"a'), whole('p', '', unread)]],
    ['that arrives whole, with no JSON', [whole('p', '', unread)]],
    ['that does not become complete', [begin('p'), delta('p', '{"path":"a')]],
    ['of whose input nothing came', [begin('p'), whole('p', '', { input: {} })]],
  ])('R7 a call %s is cut, and the model is told', async (_name, parts) => {
    const { calls, chunks, isCut } = await stepTo('length', ...parts);
    expect([calls[0]?.invalid, calls.length, isCut]).toEqual([true, 1, true]);
    const errorText = expect.stringMatching(/reached its limit within the call of "write".*less at once/) as string;
    expect(chunks.at(-2)).toMatchObject({ type: 'tool-input-error', errorText, ...CUT });
    expect((await step(...parts)).isCut).toBe(false);
  });

  it('R7 calls that were complete before are not, nor is one that is wrong otherwise', async () => {
    const none = { input: {} };
    const wrong = { invalid: true, input: { path: 7 }, error: new Error('a number') };
    const { calls, isCut } = await stepTo(
      'length',
      begin('n'),
      whole('n', '', none),
      whole('p', 'a'),
      whole('q', '', wrong),
    );
    expect([calls.map(({ invalid = false }) => invalid), isCut]).toEqual([[false, false, true], false]);
  });
});

it('R6 a step is empty without a text, a tool call or a file', async () => {
  const text = (...deltas: string[]): Part[] => [
    { type: 'text-start', id: '0' },
    ...deltas.map((each): Part => ({ type: 'text-delta', id: '0', text: each })),
  ];
  const thought: Part[] = [
    { type: 'reasoning-start', id: '1' },
    { type: 'reasoning-delta', id: '1', text: 'hm' },
  ];
  const empty = [[], text(), text('', ' \n'), thought];
  const full = [text(' ', 'a'), [whole('p', 'a')], [begin('p')]];
  const isEmpty = (parts: Part[]) => step(...parts).then((played) => played.isEmpty);
  expect(await Promise.all([...empty, ...full].map(isEmpty))).toEqual([true, true, true, true, false, false, false]);
});

describe('what is open when a step ends', () => {
  it('T5 a text and a reasoning are ended, with what was held back of them', async () => {
    const { parts } = await step(
      { type: 'reasoning-start', id: '0' },
      { type: 'reasoning-delta', id: '0', text: 'hm' },
      { type: 'text-start', id: '0' },
      { type: 'text-delta', id: '0', text: 'a\uD83D' },
    );
    expect(parts).toMatchObject([
      { type: 'reasoning', text: 'hm', state: 'done' },
      { type: 'text', text: 'a\uFFFD', state: 'done' },
    ]);
  });

  it('T5 a text is ended if another one with its id begins', async () => {
    const { parts } = await step(
      { type: 'text-start', id: '0' },
      { type: 'text-delta', id: '0', text: 'a' },
      { type: 'text-start', id: '0' },
      { type: 'text-delta', id: '0', text: 'b' },
    );
    expect(parts).toMatchObject([
      { text: 'a', state: 'done' },
      { text: 'b', state: 'done' },
    ]);
  });

  it('T5 a tool call is an invalid one, which the model is told', async () => {
    const { parts, calls } = await step(begin('p'), delta('p', '{"path":"a'));
    expect(calls).toEqual([{ toolCallId: 'ours_1', toolName: 'write', input: '{"path":"a', invalid: true }]);
    const errorText = 'The call of "write" is not complete. Call the tool again.';
    expect(parts).toMatchObject([{ type: 'tool-write', state: 'output-error', errorText }]);
  });

  it('T5 so is one that the provider was to run, without an entry in the calls', async () => {
    const { parts, calls } = await step(begin('s', 'web_search', { providerExecuted: true, dynamic: true }));
    expect(calls).toEqual([]);
    expect(parts).toMatchObject([{ toolName: 'web_search', state: 'output-error', providerExecuted: true }]);
  });
});
