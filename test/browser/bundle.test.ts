import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { buildPage } from '../../tools/scripts/build-page.ts';

const KB = 1_000;
const DIST = path.resolve('web/dist');

it('H8 the chat page loads at most 350 KB, compressed, of scripts and styles', async () => {
  await buildPage();
  const html = await readFile(path.join(DIST, 'index.html'), 'utf8');
  const entry = [...html.matchAll(/\/assets\/([\w.-]+\.(?:js|css))/g)].map(([, name]) => name!);
  const known = new Map<string, number>();
  /** A file, and those that it loads at once; of those that it loads on demand, the renderer of Markdown. */
  const load = async (name: string): Promise<void> => {
    if (known.has(name)) return;
    known.set(name, 0);
    const text = await readFile(path.join(DIST, 'assets', name), 'utf8');
    known.set(name, gzipSync(text).length);
    const atOnce = [...text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)].map(([, each]) => each!);
    const onDemand = text.match(/\bmarkdown-[\w-]+\.js/g) ?? [];
    for (const each of [...atOnce, ...onDemand]) await load(each);
  };
  for (const name of entry) await load(name);
  const total = [...known.values()].reduce((sum, size) => sum + size, 0);
  expect([...known.keys()].some((name) => name.startsWith('markdown-'))).toBe(true);
  expect(total, [...known].map((each) => each.join(' ')).join(', ')).toBeLessThanOrEqual(350 * KB);
});
