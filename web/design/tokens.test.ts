import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const WEB = path.join(import.meta.dirname, '..');
const TOKENS = 'design/tokens.css';
const RAW_COLOUR = /#[\da-f]{3,8}\b|\b(?:rgba?|hsla?|oklch)\(/i;
const FROM_TOKENS =
  /^\s*(?:font-size|border-radius|gap|padding|margin|transition|animation)[\w-]*:[^;]*\d(?:rem|px|ms|s)\b/;

const text = (name: string) => readFileSync(path.join(WEB, name), 'utf8');
const lines = (name: string) =>
  text(name)
    .split('\n')
    .map((line) => line.replaceAll(/#page\b|\/\*.*?\*\//g, ''));

it('H8 the page’s style sheets take colours, type, spacing, radii and motion from the tokens', () => {
  const sheets = globSync('*/*.css', { cwd: WEB }).filter((name) => name !== TOKENS);
  expect(sheets.length).toBeGreaterThan(20);
  const known = new Set(text(TOKENS).match(/--[\w-]+(?=:)/g));
  for (const name of sheets) {
    const wrong = lines(name).filter((line) => RAW_COLOUR.test(line) || FROM_TOKENS.test(line));
    expect([name, wrong]).toEqual([name, []]);
    const used = text(name).match(/(?<=var\()--[\w-]+/g) ?? [];
    const unknown = used.filter((token) => !known.has(token) && !text(name).includes(`${token}:`));
    expect([name, unknown]).toEqual([name, []]);
  }
});
