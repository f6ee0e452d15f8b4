import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import type { ModelPrompt } from '../model-object.ts';
import { alternating } from './alternating-roles.ts';

type Message = ModelPrompt[number];

const text = (content: string) => ({ type: 'text' as const, text: content });
const file = { type: 'file' as const, mediaType: 'image/png', data: { type: 'data' as const, data: 'AAAA' } };
const user = (...content: Extract<Message, { role: 'user' }>['content']): Message => ({ role: 'user', content });
const assistant = (...content: Extract<Message, { role: 'assistant' }>['content']): Message => ({
  role: 'assistant',
  content,
});
const call = { type: 'tool-call' as const, toolCallId: 'c1', toolName: 'look', input: {} };
const result: Message = {
  role: 'tool',
  content: [{ type: 'tool-result', toolCallId: 'c1', toolName: 'look', output: { type: 'text', value: 'seen' } }],
};

describe('the prompt for strict providers', () => {
  it('R6 messages of the user in a row are one message, with one text where texts meet', () => {
    const prompt = [user(text('look')), user(text('are you there?'), file), user(file, text('a'), text('b'))];
    expect(alternating(prompt)).toEqual([user(text('look\n\nare you there?'), file, file, text('a\n\nb'))]);
  });

  it('R6 messages of the assistant in a row are one message, whose own texts stay as the model wrote them', () => {
    const prompt = [user(text('hi')), assistant(text('a'), text('b')), assistant(text('c'), text('d'), call), result];
    expect(alternating(prompt)).toEqual([prompt[0], assistant(text('a'), text('b\n\nc'), text('d'), call), result]);
  });

  it('R6 no message of the user follows the outputs of tools directly', () => {
    const prompt = [user(text('look')), assistant(call), result, user(text('and?'))];
    const note = assistant(text('[The turn ended without an answer.]'));
    expect(alternating(prompt)).toEqual([...prompt.slice(0, 3), note, prompt[3]]);
  });

  it('R1 texts with options of a provider stay apart, and the mark for the cache stays at the end', () => {
    const providerOptions = { anthropic: { cacheControl: { type: 'ephemeral' } } };
    const signed = { ...text('b'), providerOptions };
    const prompt = [assistant(text('a')), assistant(signed), user(text('c')), { ...user(text('d')), providerOptions }];
    expect(alternating(prompt)).toEqual([assistant(text('a'), signed), { ...user(text('c\n\nd')), providerOptions }]);
  });

  it('R6 whatever the prompt, user and assistant alternate, nothing is lost, and a second pass changes nothing', () => {
    const message = fc.oneof(
      fc.array(fc.constantFrom(text('t'), file), { minLength: 1, maxLength: 3 }).map((content) => user(...content)),
      fc.array(fc.constant(text('t')), { minLength: 1, maxLength: 3 }).map((content) => assistant(...content)),
    );
    const used = fc.constant([assistant(call), result]);
    const prompts = fc.array(fc.oneof(fc.tuple(message), used), { maxLength: 8 }).map((each) => each.flat());
    fc.assert(
      fc.property(prompts, (prompt) => {
        const shown = alternating(prompt);
        const told = shown.filter(({ role }, at) => role === 'user' || (role === 'assistant' && !isCall(shown[at]!)));
        for (const [at, { role }] of told.entries()) expect(role).not.toBe(told[at - 1]?.role);
        expect(counted(shown)).toEqual(counted(prompt));
        expect(alternating(shown)).toEqual(shown);
      }),
      cases(),
    );
  });
});

/** Its outputs and a further answer follow. */
function isCall({ content }: Message): boolean {
  return typeof content !== 'string' && content.some(({ type }) => type === 'tool-call');
}

/** How many texts of one letter, files and calls a prompt has. */
function counted(prompt: ModelPrompt): number[] {
  const parts = prompt.flatMap(({ content }) => (typeof content === 'string' ? [] : [...content]));
  const texts = parts.flatMap((part) => (part.type === 'text' ? part.text.split('\n\n') : []));
  return [texts.filter((each) => each === 't').length, ...['file', 'tool-call'].map((type) => numberOf(parts, type))];
}

function numberOf(parts: readonly { type: string }[], type: string): number {
  return parts.filter((part) => part.type === type).length;
}
