// Recorded histories as files: `<name>.json`, and `<name>.inputs.json` with the inputs of what the workflow scheduled. One
// line per event, so that diffs are readable.
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Asked } from '../../../worker/replay/capture.ts';
import type { History } from '../../../worker/replay/history.ts';
import type { NamedHistory } from '../../../worker/replay/replay.ts';

/** The folder of the repository's recorded histories. */
export const HISTORIES = path.join(import.meta.dirname, '..', '..', '..', 'test', 'histories');

const INPUTS = '.inputs.json';
/** Prefix of histories from a server. */
export const FROM_SERVER = 'server-';
/** Prefix of recordings that are kept for a `patched` change. */
const KEPT = 'kept-';

/** A history and its recorded inputs. */
export interface RecordedHistory extends NamedHistory {
  inputs: Asked[];
}

/** All recorded histories of a folder, by name. */
export async function readHistories(dir: string): Promise<RecordedHistory[]> {
  const names = (await readdir(dir)).filter((file) => file.endsWith('.json') && !file.endsWith(INPUTS)).toSorted();
  return Promise.all(
    names.map(async (file) => {
      const name = file.slice(0, -'.json'.length);
      const [history, inputs] = await Promise.all([
        readJson<History>(path.join(dir, file)),
        readJson<Asked[]>(path.join(dir, `${name}${INPUTS}`)),
      ]);
      return { name, history, inputs };
    }),
  );
}

export async function writeHistory(dir: string, { name, history, inputs }: RecordedHistory): Promise<void> {
  await mkdir(dir, { recursive: true });
  await writeFile(path.join(dir, `${name}.json`), `{"events":${lines(history.events)}}\n`);
  await writeFile(path.join(dir, `${name}${INPUTS}`), `${lines(inputs)}\n`);
}

/** Removes the recordings of a scenario; without one, of all scenarios. */
export async function removeHistories(dir: string, scenario?: string): Promise<void> {
  const old = (await scenarioFiles(dir)).filter((file) => scenario === undefined || file.startsWith(`${scenario}.`));
  await Promise.all(old.map((file) => rm(path.join(dir, file))));
}

/** Renames the recordings of all scenarios, so that a new recording keeps them: `kept-<change>.<scenario>.<n>`. */
export async function keepHistories(dir: string, change: string): Promise<void> {
  const files = await scenarioFiles(dir);
  await Promise.all(files.map((file) => rename(path.join(dir, file), path.join(dir, `${KEPT}${change}.${file}`))));
}

/** The files of recorded scenarios. */
async function scenarioFiles(dir: string): Promise<string[]> {
  const files = (await readdir(dir)).filter((file) => file.endsWith('.json'));
  return files.filter((file) => !file.startsWith(FROM_SERVER) && !file.startsWith(KEPT));
}

function lines(items: readonly unknown[]): string {
  return `[\n${items.map((item) => JSON.stringify(item)).join(',\n')}\n]`;
}

async function readJson<T>(file: string): Promise<T> {
  return JSON.parse(await readFile(file, 'utf8')) as T;
}
