// The rules of names, as pure functions of the files.
import path from 'node:path';
import { type Files, type IsEntry, topOf } from './room-problems.ts';

const baseOf = (file: string) => path.basename(file).replace(/\.tsx?$/, '');

/**
 * Files that are named after none of their exports, file names that occur twice in a folder, and exports that occur twice.
 * Entries may have any name, and examples repeat one another.
 * @param bySubject folders and files that are named after a subject
 */
export function nameProblems(files: Files, isEntry: IsEntry, bySubject: readonly string[]): string[] {
  const code = [...files].filter(([file]) => topOf(file) !== 'examples');
  const inner = code.filter(([file]) => !isEntry(file));
  const unnamed = inner.flatMap(([file, { exports }]) =>
    exports.length === 0 || bySubject.some((start) => file.startsWith(start)) || isNamedAfter(file, exports)
      ? []
      : [`${file}: is named after none of its exports (${exports.slice(0, 4).join(', ')})`],
  );
  const places = inner.map(([file]) => ({ name: `${topOf(file)}/**/${baseOf(file)}`, file }));
  const exports = code.flatMap(([file, facts]) => facts.exports.map((name) => ({ name, file })));
  const unused = bySubject.filter((start) => !inner.some(([file]) => file.startsWith(start)));
  return [
    ...unnamed,
    ...unused.map((start) => `${start}: is in BY_SUBJECT of rooms.ts, but there is no such file`),
    ...twice(places, 'is the name of'),
    ...twice(exports, 'is exported by'),
  ];
}

function twice(named: readonly { name: string; file: string }[], what: string): string[] {
  return [...Map.groupBy(named, ({ name }) => name)].flatMap(([name, all]) =>
    all.length > 1 ? [`${name}: ${what} ${all.map(({ file }) => file).join(', ')}`] : [],
  );
}

/** Its name is an export's or a part of it, its room's, or an export adds the folder's: `chatRoutes` in routes/chat.ts. */
function isNamedAfter(file: string, exports: readonly string[]): boolean {
  const base = wordsOf(baseOf(file));
  const folders = path.dirname(file).split('/').map(wordsOf);
  const isIn = (name: string) =>
    ` ${name} `.includes(` ${base} `) ||
    folders.some((folder) => name === `${base} ${folder}` || name === `${folder} ${base}`);
  return folders.at(-1) === base || exports.map(wordsOf).some(isIn);
}

/** The words of a name in singular: of `ModelCatalogs` and `model-catalog` "model catalog", of `MAX_ANSWER` "max answer". */
function wordsOf(name: string): string {
  const parted =
    name === name.toUpperCase()
      ? name.replaceAll('_', '-')
      : name.replaceAll(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll(/([A-Z]+)([A-Z][a-z])/g, '$1-$2');
  return parted.toLowerCase().split('-').map(singular).join(' ');
}

/** The same for `caches` and `cache`, for `searches` and `search`. */
function singular(word: string): string {
  return word
    .replace(/ies$/, 'y')
    .replace(/([^su])s$/, '$1')
    .replace(/e$/, '');
}
