import { expect, it } from 'vitest';
import { RepeatedCalls, sentId } from './repeated-calls.ts';

it('R6 calls without an index are told apart by their ids, and the second one of an id by its mark', () => {
  const calls = new RepeatedCalls();
  const idOf = (id: string, text: string) => {
    const delta = { index: null, id, function: { name: 'write', arguments: text } };
    return (calls.marked(delta) as { id: string }).id;
  };
  const pieces = ['{"a":', '"}\\""', '}'].flatMap((piece) => [idOf('p', piece), idOf('q', piece)]);
  expect(pieces).toEqual(['p', 'q', 'p', 'q', 'p', 'q']);
  const again = idOf('p', '{');
  expect([again === 'p', sentId(again)]).toEqual([false, 'p']);
});
