import { expect, it } from 'vitest';
import { readOutput } from './read-output.ts';

const kindOf = (output: unknown) => readOutput(output).kind;

it('H8 the output of a tool is shown by its shape', () => {
  const image = 'data:image/png;base64,AAAA';
  expect(kindOf(undefined)).toBe('nothing');
  expect(kindOf('')).toBe('nothing');
  expect(readOutput(7)).toEqual({ kind: 'text', text: '7' });
  expect(readOutput('plain { text')).toEqual({ kind: 'text', text: 'plain { text' });
  expect(readOutput(image)).toEqual({ kind: 'file', mediaType: 'image/png', url: image });
  expect(kindOf('--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n')).toBe('diff');
  expect(kindOf('- one\n+ two')).toBe('text');
  expect(kindOf({ a: { b: 1 } })).toBe('tree');
  expect(kindOf('{"a": 1}')).toBe('tree');
  expect(kindOf([{ a: 1 }, { a: [] }])).toBe('tree');
});

it('H8 records with the same fields are a table, also as JSON text', () => {
  const rows = [
    { name: 'a', size: 1 },
    { name: 'b', size: null },
  ];
  expect(readOutput(JSON.stringify(rows))).toEqual({ kind: 'table', columns: ['name', 'size'], rows });
  expect(kindOf([{ a: 1 }, { b: 1 }, { c: 1 }])).toBe('tree');
});

it('H8 the parts of an MCP result are shown one by one; a file from elsewhere is never loaded', () => {
  const file = { type: 'file', mediaType: 'image/png', url: 'perdure:att_1' };
  const { url: _url, ...far } = file;
  expect(readOutput({ content: [{ type: 'text', text: 'Here:' }, file], structured: { a: 1 } })).toEqual({
    kind: 'parts',
    parts: [
      { kind: 'text', text: 'Here:' },
      { kind: 'file', mediaType: 'image/png', url: 'perdure:att_1' },
      { kind: 'tree', value: { a: 1 } },
    ],
  });
  expect(kindOf({ ...far, url: 'https://example.org/x.png' })).toBe('tree');
});
