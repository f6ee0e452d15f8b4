// Compares the tables of docs/operations.md with the code.
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

const named = (cell: string) => Array.from(cell.matchAll(/`([A-Z][A-Z0-9_]+)`/g), ([, name = '']) => name);

it('H1 the table of settings has every setting once, and nothing else', () => {
  const told = table('Settings').flatMap(([names = '']) => named(names));
  expect(told.toSorted((a, b) => a.localeCompare(b))).toEqual([...SETTINGS].toSorted((a, b) => a.localeCompare(b)));
});

it('H1 the table has the actual defaults', () => {
  /** Without `portIsSet`, which is not a value. */
  const values = (config: Config) => ({ ...config, portIsSet: true, temporalEnv: {} });
  const inForce = values(parseConfig({}, '/srv'));
  let compared = 0;
  for (const [names = '', defaults = ''] of table('Settings')) {
    const [settings, told] = [named(names), defaults.split(', ')];
    for (const [at, name] of settings.entries()) {
      const value = told[at]?.replaceAll('`', '') ?? '';
      // A default in words, or another setting's name, cannot be parsed; Temporal's defaults are not ours; those of S3 are
      // refused without its URL.
      if (!/\d|^info$|^\./.test(value) || value.includes(' ') || /^TEMPORAL_|_S3_/.test(name)) continue;
      expect({ name, config: values(parseConfig({ [name]: value }, '/srv')) }).toEqual({ name, config: inForce });
      compared += 1;
    }
  }
  expect(compared).toBeGreaterThan(15);
});

it('H1 the table of alerts has every alert, and nothing else', async () => {
  const told = table('Metrics and alerts').flatMap(([cell = '']) => /^`(Perdure\w+)`$/.exec(cell)?.[1] ?? []);
  expect(told.toSorted((a, b) => a.localeCompare(b))).toEqual(
    (await alerts()).map(({ alert }) => alert).toSorted((a, b) => a.localeCompare(b)),
  );
});
