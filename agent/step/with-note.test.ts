import type { ModelMessage } from 'ai';
import { describe, expect, it } from 'vitest';
import { withNote } from './with-note.ts';

type Tool = Extract<ModelMessage, { role: 'tool' }>;
type Output = Extract<Tool['content'][number], { type: 'tool-result' }>['output'];

const call = { type: 'tool-call' as const, toolCallId: 'c2', toolName: 'read', input: {} };
const user: ModelMessage = { role: 'user', content: 'go' };
const asked: ModelMessage[] = [user, { role: 'assistant', content: [{ ...call, toolCallId: 'c1' }, call] }];
const result = (toolCallId: string, output: Output) => ({
  ...{ type: 'tool-result' as const, toolCallId, toolName: 'read', output },
});
const first = result('c1', { type: 'text', value: 'one' });

describe('a note to the model', () => {
  it.each<[string, Output, Output]>([
    ['text', { type: 'text', value: 'two' }, { type: 'text', value: 'two\n\nnote' }],
    ['JSON', { type: 'json', value: { two: 2 } }, { type: 'text', value: '{"two":2}\n\nnote' }],
    ['an error', { type: 'error-text', value: 'no' }, { type: 'error-text', value: 'no\n\nnote' }],
  ])('I7 in the midst of a turn is in the newest output: %s', (_, before, after) => {
    const outputs = (last: Output): Tool => ({ role: 'tool', content: [first, result('c2', last)] });
    expect(withNote([...asked, outputs(before)], 'note')).toEqual([...asked, outputs(after)]);
  });

  it('I7 is a message of the user after one, and after an output without text', () => {
    const denied: Tool = { role: 'tool', content: [result('c2', { type: 'execution-denied' })] };
    const note = { role: 'user', content: 'note' };
    expect(withNote([user], 'note')).toEqual([user, note]);
    expect(withNote([...asked, denied], 'note')).toEqual([...asked, denied, note]);
    expect(withNote(asked, undefined)).toBe(asked);
  });
});
