import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { SETTINGS } from '../../config/config.ts';
import { pages } from './shell-blocks.ts';

const root = path.join(import.meta.dirname, '..', '..');
const read = (file: string) => readFile(path.join(root, file), 'utf8');

it('H1 the commands named in the docs exist, and the docs name each command', async () => {
  const { scripts } = JSON.parse(await read('package.json')) as { scripts: Record<string, string> };
  const named = (await pages()).flatMap(({ file, text }) =>
    [...text.matchAll(/npm\s+run\s+([\w:-]+)/g)].map(([, name = '']) => ({ file, name })),
  );
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter(({ name }) => scripts[name] === undefined)).toEqual([]);
  // npm runs `pre…` itself, `npm run check` its parts, and `start` and `test` need no `run`.
  const commands = Object.keys(scripts).filter((name) => !/^pre|^check:|^start$|^test$/.test(name));
  const isNamed = (command: string) => named.some(({ name }) => name === command);
  expect(commands.filter((command) => !isNamed(command))).toEqual([]);
});

it('H1 the pages, files and folders linked in the docs exist', async () => {
  const links = (await pages()).flatMap(({ file, text }) =>
    [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link = '']) => ({ file, link })),
  );
  expect(links.filter(({ file, link }) => !existsSync(path.join(root, path.dirname(file), link)))).toEqual([]);
});

it('H1 the files of this repository that the docs name exist', async () => {
  const folders = new Set(
    (await readdir(root, { withFileTypes: true })).filter((one) => one.isDirectory()).map(({ name }) => name),
  );
  // What tests and programs leave there comes and goes.
  folders.delete('.perdure');
  const named = (await pages()).flatMap(({ file, text }) =>
    [...text.matchAll(/`([\w.@-]+(?:\/[\w.@-]+)+\.(?:tsx?|js|css|html|json|sh|sql|txt|ya?ml|md))`/g)].map(
      ([, name = '']) => ({
        file,
        name,
      }),
    ),
  );
  const ours = named.filter(({ name }) => folders.has(name.split('/')[0]!) && !name.includes('NNNN'));
  expect(ours.length).toBeGreaterThan(500);
  expect(ours.filter(({ name }) => !existsSync(path.join(root, name)))).toEqual([]);
});

it('H1 every setting is in the operator’s guide', async () => {
  expect(SETTINGS.length).toBeGreaterThan(20);
  const guide = await read('docs/operations.md');
  expect(SETTINGS.filter((name) => !guide.includes(`\`${name}\``))).toEqual([]);
});
