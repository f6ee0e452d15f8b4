import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { COMMAND_NAMES, commandEntry, type CommandName } from '../../domain/command-table.ts';
import { pathArguments } from '../../wire/commands.ts';

const DOCS = path.join(import.meta.dirname, '..', '..', 'docs');

/** `{ project_id, abort? }` */
function listed(name: CommandName, leftOut: readonly string[] = []): string {
  const kinds = Object.entries(commandEntry(name).arguments).filter(([argument]) => !leftOut.includes(argument));
  const words = kinds.map(
    ([argument, kind]) => `${argument}${typeof kind === 'string' && kind.endsWith('?') ? '?' : ''}`,
  );
  return words.length === 0 ? '`{}`' : `\`{ ${words.join(', ')} }\``;
}

function httpRow(name: CommandName): string[] {
  const entry = commandEntry(name);
  const routes = [`\`${entry.method.toUpperCase()} /api/sessions/:id${entry.path}\``];
  if (entry.alias) routes.push(`\`${entry.method.toUpperCase()} ${entry.alias}?session_id=\``);
  const body = entry.method === 'delete' ? '' : listed(name, pathArguments(entry));
  const members = Object.keys(entry.outcome).map((member) => `\`${member}\``);
  return [routes.join(' · '), body, members.join(', '), entry.summary];
}

/** The cells of every table row of a page. */
async function rowsOf(page: string): Promise<string[][]> {
  const text = await readFile(path.join(DOCS, page), 'utf8');
  const rows = text.split('\n').filter((line) => line.startsWith('|'));
  return rows.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

it('H2 docs/http.md has the row of each command', async () => {
  const rows = await rowsOf('http.md');
  for (const name of COMMAND_NAMES) expect(rows).toContainEqual(httpRow(name));
});

it('H5 docs/library.md has a row for each command’s method, and no others', async () => {
  const rows = await rowsOf('library.md');
  const from = rows.findIndex(([first]) => first === 'method') + 2;
  const table = rows.slice(from, from + COMMAND_NAMES.length);
  expect(table).toEqual(COMMAND_NAMES.map((name) => [`\`${name}\``, listed(name), commandEntry(name).summary]));
});
