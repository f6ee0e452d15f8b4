import { type BigIntStats, lstatSync, opendirSync } from 'node:fs';
import path from 'node:path';
import { foldersBetween, stampOf } from './instructions.ts';

/** Files and folders of a repository with their stamps, missing ones with none: while these stay, its state stays. */
export type GitEvidence = ReadonlyMap<string, string>;

/** A clean repository with more files and folders has no evidence: a prompt may take a millisecond. */
const MAX_ENTRIES = 300;
/** What changed this shortly before git looked may change again without another stamp. */
const SETTLED_MS = 1_000;
/** Of the changes that git lists, those at the beginning are enough. */
const MAX_CHANGES_LENGTH = 16 * 1024;

/**
 * What shows, later, that a repository is still clean or dirty. One change shows that it is dirty; that it is clean is shown
 * by all of its files and folders, also ignored ones. Undefined: only git itself can tell.
 * @param index path of its index, which belongs to the evidence
 * @param changes output of `git status --porcelain -z`
 * @param askedAt when git was started, in epoch milliseconds
 */
export function evidenceOf(
  { folder, index }: { folder: string; index: string },
  changes: string,
  askedAt: number,
): GitEvidence | undefined {
  const indexStat = statOf(index);
  const files = (changes === '' ? undefined : witnessesOf(folder, changes)) ?? entriesOf(folder);
  if (indexStat === undefined || files === undefined) return undefined;
  const all: Entry[] = [[index, indexStat], ...files];
  const isSettled = ([, stat]: Entry) => stat === undefined || Number(stat.ctimeMs) < askedAt - SETTLED_MS;
  return all.every(isSettled) ? new Map(all.map(([file, stat]) => [file, stampOrNone(stat)])) : undefined;
}

/** Whether the files and folders are still as they were. */
export function holds(evidence: GitEvidence): boolean {
  for (const [file, stamp] of evidence) {
    if (stampOrNone(statOf(file)) !== stamp) return false;
  }
  return true;
}

function stampOrNone(stat: BigIntStats | undefined): string {
  return stat === undefined ? '' : stampOf(stat);
}

type Entry = readonly [file: string, stat: BigIntStats | undefined];

/** What keeps one of the changes a change, besides index and commit; undefined: none of the first can be seen so easily. */
function witnessesOf(folder: string, changes: string): Entry[] | undefined {
  const listed = changes.slice(0, MAX_CHANGES_LENGTH).split('\0').slice(0, -1);
  for (const change of listed) {
    const [staged = '', inTree = ''] = change;
    // A difference between commit and index.
    if (staged !== ' ' && staged !== '?') return [];
    // Two files are named, the other one next.
    if (inTree === 'R' || inTree === 'C') return undefined;
    const file = path.join(folder, change.slice(3));
    const stat = inTree === 'D' ? undefined : statOf(file);
    if (stat === undefined || stat.isDirectory()) continue;
    const ignores = foldersBetween(folder, path.dirname(file)).map((each) => path.join(each, '.gitignore'));
    return [[file, stat], ...ignores.map((each): Entry => [each, statOf(each)])];
  }
  return undefined;
}

/** A folder with all that is in it but its `.git`; undefined: it is too much or cannot be read, or a name is not UTF-8. */
function entriesOf(root: string): Entry[] | undefined {
  const entries: Entry[] = [[root, statOf(root)]];
  for (const [folder, stat] of entries) {
    if (stat === undefined) return undefined;
    if (!stat.isDirectory()) continue;
    const names = namesIn(folder, MAX_ENTRIES - entries.length);
    if (names === undefined) return undefined;
    for (const name of names) {
      const file = path.join(folder, name);
      if (file !== path.join(root, '.git')) entries.push([file, statOf(file)]);
    }
  }
  return entries;
}

/** Undefined if there are more, or it cannot be read. */
function namesIn(folder: string, atMost: number): string[] | undefined {
  try {
    using directory = opendirSync(folder);
    const names: string[] = [];
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      if (names.length >= atMost) return undefined;
      names.push(entry.name);
    }
    return names;
  } catch {
    return undefined;
  }
}

/** Undefined for what is missing or cannot be read. */
function statOf(file: string): BigIntStats | undefined {
  try {
    return lstatSync(file, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
