import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';

const root = path.join(import.meta.dirname, '..', '..');

/** A section of the page. */
interface Clause {
  name: string;
  /** Its first paragraph. */
  promise: string;
  /** The test files that it lists. */
  files: string[];
  /** It says what is not done yet. */
  isOpen: boolean;
}

async function clauses(): Promise<Clause[]> {
  const text = await readFile(path.join(root, 'docs', 'conformance.md'), 'utf8');
  // Each reaches to the next heading of any level.
  return [...text.matchAll(/^### (.*)\n([^]*?)(?=^#|$(?![^]))/gm)].map(([, name = '', section = '']) => ({
    name,
    promise: section.trim().split('\n\n')[0] ?? '',
    // An item with anything else besides a file is no such file.
    files: Array.from(section.matchAll(/^- (.*)$/gm), ([, item = '']) => item.replace(/^`([^`]+)`$/, '$1')),
    isOpen: /^Open: ./m.test(section),
  }));
}

it('the conformance page has every clause once, with what it promises', async () => {
  const all = await clauses();
  const names = all.map(({ name }) => name);
  expect(names.filter((name) => !/^[A-Z]\d+$/.test(name))).toEqual([]);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toHaveLength(85);
  // One line: a capital letter, at most 160 characters, a full stop at the end.
  expect(all.filter(({ promise }) => !/^[A-Z].{0,158}\.$/.test(promise) || promise.startsWith('Code:'))).toEqual([]);
});

it('the clauses of the conformance page list tests that name them, or what is open', async () => {
  const wrong: string[] = [];
  for (const { name, files, isOpen } of await clauses()) {
    if (files.length === 0 && !isOpen) wrong.push(`${name} has no tests, and nothing that is open`);
    for (const file of files) {
      const source = existsSync(path.join(root, file)) ? await readFile(path.join(root, file), 'utf8') : '';
      // Several clauses may begin a title, which follows `it(`, `it.each(rows)(` or, with the rows written out, `])(`.
      const titled = new RegExp(
        `(?:(?:it|test)(?:\\.[a-z]+)*(?:\\([^'"\`]*\\))?|^\\s*\\]\\))\\(\\s*['"\`](?:[A-Z]\\d+ )*${name}[ :|]`,
        'm',
      );
      if (!titled.test(source)) wrong.push(`${name}: ${file} has no test of it`);
    }
  }
  expect(wrong).toEqual([]);
});
