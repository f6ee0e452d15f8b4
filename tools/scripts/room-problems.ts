// The rules of rooms, as pure functions of the files.
import path from 'node:path';
import type { ModuleFacts } from './modules.ts';
import { ANY_SIZE, LARGEST_ROOM, SMALLEST_ROOM } from './rooms.ts';

/** Files by their path from the root. */
export type Files = ReadonlyMap<string, ModuleFacts>;

/** The folder at the top of the repository. */
export const topOf = (file: string): string => file.split('/')[0]!;
/** `client/send`; of a file at the root of its folder: the file. */
const roomOf = (file: string) => file.split('/').slice(0, 2).join('/');
const targetsOf = (file: string, { imports }: ModuleFacts) =>
  imports.flatMap(({ specifier }) => (specifier.startsWith('.') ? [path.join(path.dirname(file), specifier)] : []));

/** Whether a file is where a process, a package's user or a bundle begins. */
export type IsEntry = (file: string) => boolean;

/**
 * Imports of a folder that go up or sideways, files in no listed room, and rooms that are too small or too large.
 * @param rooms their names, from the top down
 */
export function wallProblems(files: Files, top: string, rooms: readonly string[], isEntry: IsEntry): string[] {
  const ranks = new Map(rooms.map((room, rank) => [`${top}/${room}`, rank]));
  const own = [...files].filter(([file]) => topOf(file) === top);
  const walls = new Map(own.map(([file, facts]) => [file, targetsOf(file, facts).filter((to) => topOf(to) === top)]));
  const misplaced = own.flatMap(([file]) => {
    const depth = file.split('/').length;
    if (depth > 3) return [`${file}: a room has no folders`];
    return depth === 3 && !ranks.has(roomOf(file)) ? [`${file}: ${roomOf(file)} is not in rooms.ts`] : [];
  });
  const crossings = [...walls].flatMap(([file, targets]) =>
    targets
      .filter((to) => roomOf(to) !== roomOf(file))
      .flatMap((to) => {
        const problem = crossing(ranks.get(roomOf(file)), to);
        return problem === undefined ? [] : [`${file}: may not import ${to}: ${problem}`];
      }),
  );
  return [...misplaced, ...crossings, ...sizeProblems([...walls.keys()], [...ranks.keys()])];

  /** What is wrong with an import from the room of rank `from`; undefined: nothing. */
  function crossing(from: number | undefined, to: string): string | undefined {
    if (from === undefined) return undefined;
    const rank = ranks.get(roomOf(to));
    if (rank !== undefined) return rank > from ? undefined : `${rooms[rank]} is above ${rooms[from]}`;
    if (isEntry(to)) return 'it is an entry';
    const highest = highestOf(to);
    return highest > from ? undefined : `it imports from ${rooms[highest]}, which is not below ${rooms[from]}`;
  }

  /** The rank of the highest room that a file at the folder's root imports, also through others there. */
  function highestOf(file: string, seen: ReadonlySet<string> = new Set()): number {
    if (seen.has(file)) return Infinity;
    const through = new Set([...seen, file]);
    return Math.min(Infinity, ...(walls.get(file) ?? []).map((to) => ranks.get(roomOf(to)) ?? highestOf(to, through)));
  }
}

function sizeProblems(files: readonly string[], rooms: readonly string[]): string[] {
  return rooms.flatMap((room) => {
    const size = files.filter((file) => roomOf(file) === room).length;
    const isFine = ANY_SIZE.has(room) ? size > 0 : size >= SMALLEST_ROOM && size <= LARGEST_ROOM;
    return isFine ? [] : [`${room}: expected ${SMALLEST_ROOM} to ${LARGEST_ROOM} files, has ${size}`];
  });
}
