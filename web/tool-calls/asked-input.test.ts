import { expect, it } from 'vitest';
import { readInput } from './asked-input.ts';

it('P3 a call that writes a file, changes one or runs a command is recognized; nothing of its input is left out', () => {
  expect(readInput({ path: 'a.txt', content: 'x', mode: 1 })).toEqual({
    ...{ kind: 'write', path: 'a.txt', content: 'x' },
    rest: { mode: 1 },
  });
  expect(readInput({ file_path: 'a.txt', old_string: 'x', new_string: 'y', all: true })).toEqual({
    ...{ kind: 'edit', path: 'a.txt', before: 'x', after: 'y' },
    rest: { all: true },
  });
  expect(readInput({ command: 'rm -r site', cwd: '/' })).toEqual({
    ...{ kind: 'command', command: 'rm -r site' },
    rest: { cwd: '/' },
  });
});

it('P3 the words of a command are told apart', () => {
  expect(readInput({ cmd: ['rm', '-r', 'my site', '$HOME'] })).toMatchObject({ command: 'rm -r "my site" "$HOME"' });
});

it.each([
  [{ path: 'a.txt' }, { path: 'a.txt' }],
  [{ command: 3 }, { command: 3 }],
  [{ command: [] }, { command: [] }],
  [{}, {}],
  ['text', { input: 'text' }],
  [null, { input: null }],
  [[1], { input: [1] }],
])('P3 any other input is shown as it is: %j', (input, rest) => {
  expect(readInput(input)).toEqual({ kind: 'other', rest });
});
