// What docs/operations.md says in tables, against what there is.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { type Config, parseConfig, SETTINGS } from '../../config/config.ts';
import { alerts } from './queries.ts';

const guide = await readFile(path.join(import.meta.dirname, '..', '..', 'docs', 'operations.md'), 'utf8');

/** The cells of the rows of the table under a heading. */
function table(heading: string): string[][] {
  const section = guide.split(/^## /m).find((each) => each.startsWith(`${heading}\n`)) ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const named = (cell: string) => Array.from(cell.matchAll(/`([A-Z][A-Z_]+)`/g), ([, name = '']) => name);

it('H1 every setting stands in the table of settings once, and nothing else does', () => {
  const told = table('Settings').flatMap(([names = '']) => named(names));
  expect(told.toSorted((a, b) => a.localeCompare(b))).toEqual([...SETTINGS].toSorted((a, b) => a.localeCompare(b)));
});

it('H1 the defaults in the table are those that are in force', () => {
  /** That a port was given is no value. */
  const values = (config: Config) => ({ ...config, portIsSet: true, temporalEnv: {} });
  const inForce = values(parseConfig({}, '/srv'));
  let compared = 0;
  for (const [names = '', defaults = ''] of table('Settings')) {
    const [settings, told] = [named(names), defaults.split(', ')];
    for (const [at, name] of settings.entries()) {
      const value = told[at]?.replaceAll('`', '') ?? '';
      // Words, and names of others, say what is so without it; Temporal's are its own.
      if (!/\d|^info$|^\./.test(value) || value.includes(' ') || name.startsWith('TEMPORAL_')) continue;
      expect({ name, config: values(parseConfig({ [name]: value }, '/srv')) }).toEqual({ name, config: inForce });
      compared += 1;
    }
  }
  expect(compared).toBeGreaterThan(15);
});

it('H1 every alert is in the table that says what to do, and nothing else is', async () => {
  const told = table('Metrics and alerts').flatMap(([cell = '']) => /^`(Perdure\w+)`$/.exec(cell)?.[1] ?? []);
  expect(told.toSorted((a, b) => a.localeCompare(b))).toEqual(
    (await alerts()).map(({ alert }) => alert).toSorted((a, b) => a.localeCompare(b)),
  );
});
