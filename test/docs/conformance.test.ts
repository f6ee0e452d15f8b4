import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';

const root = path.join(import.meta.dirname, '..', '..');

/** The rows of the table: clause and its test files. */
async function rows(): Promise<{ clause: string; files: string[] }[]> {
  const text = await readFile(path.join(root, 'docs', 'conformance.md'), 'utf8');
  return text
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .filter(([, clause]) => /^[A-Z]\d+$/.test(clause ?? ''))
    .map(([, clause = '', , shown = '']) => ({
      clause,
      files: [...shown.matchAll(/`([^`]+)`/g)].map(([, file = '']) => file),
    }));
}

it('the conformance table lists every clause once, with tests that name their clause', async () => {
  const table = await rows();
  const clauses = table.map(({ clause }) => clause);
  expect(new Set(clauses).size).toBe(clauses.length);
  expect(clauses).toHaveLength(85);
  const wrong: string[] = [];
  for (const { clause, files } of table) {
    for (const file of files) {
      const source = existsSync(path.join(root, file)) ? await readFile(path.join(root, file), 'utf8') : '';
      // Several clauses may begin a title, which follows `it(`, `it.each(rows)(` or, with the rows written out, `])(`.
      const titled = new RegExp(
        `(?:(?:it|test)(?:\\.[a-z]+)*(?:\\([^'"\`]*\\))?|^\\s*\\]\\))\\(\\s*['"\`](?:[A-Z]\\d+ )*${clause}[ :|]`,
        'm',
      );
      if (!titled.test(source)) wrong.push(`${clause}: ${file} has no test of it`);
    }
  }
  expect(wrong).toEqual([]);
});
