import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../agent/definition/define.ts';
import type { StepInput } from '../../agent/step/stream-model-call.ts';
import { callTool, finish, report, say, think } from '../../tools/test-kit/model-actions.ts';
import type { ModelScript } from '../../tools/test-kit/model-server.ts';
import { collect, hello, type Played, readUntil, StepPlay } from './step-play.ts';

let at: StepPlay;

beforeAll(async () => void (at = await StepPlay.start()));
afterAll(() => at.server.close());

const play = (script: ModelScript, more?: Partial<StepInput>) => at.play(script, more);
const typesOf = (played: Played) => played.chunks.map((chunk) => chunk.type);
const lastRequest = () => at.server.requests.at(-1)!;

describe('one step', () => {
  it('R1 yields reasoning, text and tool input in order, between start-step and finish-step', async () => {
    const played = await play(() => [
      think('Let me '),
      think('see.'),
      say('Hel'),
      say('lo'),
      callTool('p1', 'write_file', { path: 'a' }, 8),
    ]);
    expect(typesOf(played)).toEqual([
      'start-step',
      'reasoning-start',
      'reasoning-delta',
      'reasoning-delta',
      'reasoning-end',
      'text-start',
      'text-delta',
      'text-delta',
      ...['tool-input-start', 'tool-input-delta', 'tool-input-delta'],
      'text-end',
      'tool-input-available',
      'finish-step',
    ]);
    expect(played.result).toMatchObject({ finishReason: 'tool-calls', model: 'openai/test' });
    expect(played.result?.toolCalls).toEqual([
      { toolCallId: 'call_ours_1', toolName: 'write_file', input: { path: 'a' } },
    ]);
  });

  it('R1 yields a chunk before the provider sends the next', async () => {
    const gate = Promise.withResolvers<void>();
    const step = at.step(async function* script() {
      yield say('first');
      await gate.promise;
      yield say('second');
    });
    await readUntil(step, 'text-delta');
    expect(lastRequest().endedAt).toBeUndefined();
    gate.resolve();
    expect(typesOf(await collect(step))).toEqual(['text-delta', 'text-end', 'finish-step']);
  });

  it('P1 sends the system text, the tools in their own parameter, and asks for usage', async () => {
    await play(() => [say('hi')], { temperature: 0.2, maxOutputTokens: 99 });
    const { body } = lastRequest();
    expect(body.messages[0]).toMatchObject({ role: 'system', content: 'Be kind.' });
    expect(body.tools?.[0]?.function).toMatchObject({ name: 'write_file', description: 'Writes a file.' });
    expect(body.tools?.[0]?.function.parameters).toMatchObject({ type: 'object', required: ['path'] });
    expect(body).toMatchObject({ temperature: 0.2, max_tokens: 99, stream_options: { include_usage: true } });
  });

  it('U1 counts cached and reasoning tokens separately', async () => {
    const { result } = await play(() => [say('hi'), report({ input: 1_000, output: 50, reasoning: 30, cached: 600 })]);
    expect(result?.usage).toEqual({ input: 400, output: 20, reasoning: 30, cache_read: 600, cache_write: 0 });
  });

  it('R6 returns the provider’s finish reason for length and content filter', async () => {
    const long = await play(() => [say('cut off'), finish('length')]);
    const filtered = await play(() => [say('no'), finish('content_filter')]);
    expect([long.result?.finishReason, filtered.result?.finishReason]).toEqual(['length', 'content-filter']);
  });

  it('R1 an empty answer is a step without content', async () => {
    expect(typesOf(await play(() => []))).toEqual(['start-step', 'finish-step']);
  });
});

describe('tool calls', () => {
  it('T3 have our unique ids even if a provider repeats its own within a step', async () => {
    const { chunks, result } = await play(() => [
      callTool('call_1', 'write_file', { path: 'a' }, 4),
      callTool('call_1', 'write_file', { path: 'b' }, 4),
    ]);
    expect(result?.toolCalls.map(({ toolCallId, input }) => [toolCallId, input])).toEqual([
      ['call_ours_1', { path: 'a' }],
      ['call_ours_2', { path: 'b' }],
    ]);
    for (const { toolCallId, input } of result?.toolCalls ?? []) {
      const deltas = chunks.flatMap((chunk) =>
        chunk.type === 'tool-input-delta' && chunk.toolCallId === toolCallId ? [chunk.inputTextDelta] : [],
      );
      expect(JSON.parse(deltas.join(''))).toEqual(input);
    }
  });

  it('T3 keep the provider’s id as metadata, and are sent back to it under ours', async () => {
    const { chunks } = await play(() => [callTool('call_1', 'write_file', { path: 'a' })]);
    expect(chunks.find((chunk) => chunk.type === 'tool-input-available')).toMatchObject({
      toolCallId: 'call_ours_1',
      providerMetadata: { perdure: { providerToolCallId: 'call_1' } },
    });
    const part = {
      type: 'tool-write_file' as const,
      toolCallId: 'call_ours_1',
      state: 'output-available' as const,
      input: { path: 'a' },
      output: 'written',
      callProviderMetadata: { perdure: { providerToolCallId: 'call_1' } },
    };
    await play(() => [say('ok')], {
      messages: [...hello, { id: 'msg_2', role: 'assistant', parts: [{ type: 'step-start' }, part] }],
    });
    const { messages } = lastRequest().body;
    expect(messages.at(-2)?.tool_calls?.[0]?.id).toBe('call_ours_1');
    expect(messages.at(-1)).toMatchObject({ role: 'tool', tool_call_id: 'call_ours_1', content: 'written' });
  });

  it('R6 an unknown tool is an error that names the existing ones, under a name that providers accept', async () => {
    const { chunks, result } = await play(() => [callTool('c', 'rm -rf /', { a: 1 })]);
    expect(result?.toolCalls).toEqual([
      { toolCallId: 'call_ours_1', toolName: 'rm_-rf__', input: { a: 1 }, invalid: true },
    ]);
    expect(
      chunks
        .filter((chunk) => 'toolCallId' in chunk)
        .every((chunk) => 'dynamic' in chunk || chunk.type === 'tool-input-delta'),
    ).toBe(true);
    expect(chunks.find((chunk) => chunk.type === 'tool-input-error')?.errorText).toBe(
      'There is no tool "rm_-rf__". The tools are: write_file.',
    );
  });

  it('P5 invalid input is an error that says what is wrong', async () => {
    const wrong = await play(() => [callTool('c', 'write_file', { path: 7 })]);
    const broken = await play(() => [callTool('c', 'write_file', '{"path": "a')]);
    const textOf = ({ chunks }: Played) => chunks.find((chunk) => chunk.type === 'tool-input-error')?.errorText;
    expect(textOf(wrong)).toMatch(/The input of "write_file" is not right: path: .*expected string/);
    expect(textOf(broken)).toMatch(/The input of "write_file" is not valid JSON\. It begins: \{"path": "a/);
    expect([wrong, broken].map(({ result }) => result?.toolCalls[0]?.invalid)).toEqual([true, true]);
  });

  it('P5 input is stored as the model wrote it; the schema’s transforms are applied when the tool runs', async () => {
    const shout = defineTool({
      name: 'shout',
      description: 'Shouts.',
      input: z.object({ text: z.string().transform((text) => text.length), loud: z.boolean().default(true) }),
      execute: () => null,
    });
    const { result } = await play(() => [callTool('c', 'shout', { text: 'abc' })], { tools: [shout] });
    expect(result?.toolCalls[0]).toMatchObject({ input: { text: 'abc' } });
  });
});

describe('text that Postgres refuses', () => {
  it('T5 replaces U+0000 and lone surrogates in text, reasoning, names, ids and inputs', async () => {
    const bad = 'a\0b\uD83Dc';
    const { chunks, result } = await play(() => [
      think(bad),
      say(bad),
      callTool(bad, `x${bad}`, { [bad]: [bad, { deep: bad }] }, 3),
      callTool('c', 'write_file', { path: bad }, 1),
    ]);
    const json = JSON.stringify([chunks, result]);
    expect(json).not.toMatch(/\\u0000|\\ud[89a-f]/i);
    expect(result?.toolCalls[1]?.input).toEqual({ path: 'a\uFFFDb\uFFFDc' });
    const deltas = chunks.flatMap((chunk) => (chunk.type === 'tool-input-delta' ? [chunk.inputTextDelta] : []));
    expect(deltas.join('')).not.toMatch(/\\u0000|\\ud83d/i);
  });

  it('T5 keeps a surrogate pair that the provider splits over two deltas, in text and reasoning', async () => {
    const { chunks } = await play(() => [
      think('a\uD83D'),
      think('\uDE00'),
      say('b\uD83D'),
      say('\uDE00c'),
      say('\uD83D'),
    ]);
    const join = (type: string) =>
      chunks.flatMap((chunk) => (chunk.type === type && 'delta' in chunk ? [chunk.delta] : [])).join('');
    expect([join('reasoning-delta'), join('text-delta')]).toEqual(['a😀', 'b😀c\uFFFD']);
  });
});
