// What a failed test file leaves for a look afterwards: the logs of its servers and the names of its databases, in a folder of
// its name. Its databases are kept when the run's servers end (failed-run.ts).
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** In the folder of a file: the names of its databases, one a line. */
export const DATABASES = 'databases.txt';
/** Characters of a log that are kept, at its end. */
const MOST_OF_A_LOG = 10 * 1024 ** 2;

/**
 * The folder of this look at the tests: `.perdure/failed`, or what TEST_KEPT says, as tools/scripts/test.ts sets it for a second
 * look; undefined: nothing is kept.
 */
export function keptFolder(): string | undefined {
  const folder = process.env['TEST_KEPT'] ?? path.join('.perdure', 'failed');
  return folder === '' ? undefined : path.resolve(folder);
}

/** Keeps the end of a log as `<name>.log`, or `<name>-2.log` if there is one already. @param log lines, or objects that become lines */
export async function keepLog(kept: string, name: string, log: string | readonly object[]): Promise<void> {
  const text = typeof log === 'string' ? log : log.map((line) => `${JSON.stringify(line)}\n`).join('');
  await mkdir(kept, { recursive: true });
  for (let at = 1; ; at++) {
    try {
      const file = path.join(kept, at === 1 ? `${name}.log` : `${name}-${at}.log`);
      return await writeFile(file, text.slice(-MOST_OF_A_LOG), { flag: 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** Notes a database that is not to be dropped. */
export async function keepDatabase(kept: string, name: string): Promise<void> {
  await mkdir(kept, { recursive: true });
  await appendFile(path.join(kept, DATABASES), `${name}\n`);
}
