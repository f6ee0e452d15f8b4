import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { unpackTar } from 'modern-tar';
import { PerdureError } from '../../domain/errors.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { type Faults, MAX_FILES, MAX_PLANNING_BYTES, type RawFile } from './text-files.ts';

const uncompressed = promisify(gunzip);
const FOLDER = '.planning/';

/**
 * The files of an archive of `.planning/`, or of what is in it. Nothing is written to disk.
 * @param faults receives entries that are no files below that folder
 * @throws {InvalidInputError} for what is no archive @throws {PerdureError} `TooLarge`
 */
export async function filesOfArchive(archive: Uint8Array, faults: Faults): Promise<RawFile[]> {
  const tar = await uncompressed(archive, { maxOutputLength: MAX_PLANNING_BYTES }).catch((error: unknown) => {
    // A few compressed bytes can expand to gigabytes.
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new PerdureError('TooLarge', `body: expected at most ${MAX_PLANNING_BYTES} bytes when uncompressed`);
    }
    throw notAnArchive();
  });
  const entries = await unpackTar(new Uint8Array(tar), { strict: true }).catch(() => {
    throw notAnArchive();
  });
  if (entries.length > MAX_FILES) throw new PerdureError('TooLarge', `body: expected at most ${MAX_FILES} files`);
  return entries.flatMap(({ header: { name, type = 'file' }, data }): RawFile[] => {
    if (type === 'directory') return [];
    const path = pathOf(name);
    if (path === undefined) faults.add(name, undefined, `a path below ${FOLDER}`);
    else if (type !== 'file') faults.add(path, undefined, `a file, not a ${type}`);
    else return [{ path, bytes: data ?? new Uint8Array() }];
    return [];
  });
}

/** The path below the folder; undefined: it is not below it. */
function pathOf(name: string): string | undefined {
  const path = name.replace(/^(?:\.\/)+/, '');
  if (/^\/|\\|\0/.test(path) || path.split('/').includes('..')) return undefined;
  return path.startsWith(FOLDER) ? path.slice(FOLDER.length) : path;
}

function notAnArchive(): InvalidInputError {
  return new InvalidInputError([{ field: 'body', expected: 'a gzipped tar file of the folder .planning/' }]);
}
