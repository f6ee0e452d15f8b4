// `perdure planning`: the folder .planning/ of an initiative, out of the database and into it.
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createClient, type PerdureClient } from '../client/client.ts';
import { planningFiles } from '../client/planning/planning-files.ts';
import { MAX_FILES, MAX_PLANNING_BYTES, type RawFile } from '../client/planning/text-files.ts';
import { temporalClient } from '../client/send/temporal-client.ts';
import { parseConfig, requireDatabase } from '../config/config.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { InvalidInputError } from '../wire/input.ts';
import { parseOptions, runCommand, UsageError } from './replay/options.ts';

const HELP = `perdure planning: exports an initiative as the folder .planning/, and imports such a folder as a new initiative.

usage: perdure planning export --user USER --initiative ID [--folder FOLDER]
       perdure planning import --user USER [--folder FOLDER] [--dry-run]
  --user USER       whose initiative it is
  --initiative ID   its ini_ id
  --folder FOLDER   where .planning/ is or will be (the current folder)
  --dry-run         only report what would be read`;

const OPTIONS = {
  user: { type: 'string' },
  initiative: { type: 'string' },
  folder: { type: 'string', default: '.' },
  'dry-run': { type: 'boolean', default: false },
} as const;

/** `perdure planning`. */
export async function runPlanning(args: readonly string[]): Promise<void> {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) return console.log(HELP);
  await runCommand(async () => {
    const { values, positionals } = parseOptions({ args: [...args], options: OPTIONS, allowPositionals: true });
    const { user, initiative, folder, 'dry-run': isDryRun } = values;
    const [action, ...more] = positionals;
    if ((action !== 'export' && action !== 'import') || more.length > 0)
      throw new UsageError('expected export or import');
    if (user === undefined) throw new UsageError('--user: expected whose initiative it is');
    const planning = path.resolve(folder, '.planning');
    if (action === 'import') return withClient((client) => importFolder(client, user, { planning, isDryRun }));
    if (initiative === undefined) throw new UsageError('--initiative: expected its ini_ id');
    return withClient((client) => exportFolder(client, user, { planning, initiative }));
  });
}

async function withClient(work: (client: PerdureClient) => Promise<number>): Promise<number> {
  const config = requireDatabase(parseConfig(process.env));
  const { databaseUrl: database, directDatabaseUrl, preparedStatements, taskQueue, hideUsersKey } = config;
  const temporal = temporalClient(temporalConnectConfig(config));
  const client = createClient({ database, directDatabaseUrl, preparedStatements, temporal, taskQueue, hideUsersKey });
  try {
    return await work(client);
  } finally {
    await client.end();
    await temporal.connection.close();
  }
}

/** Never writes over files that are there. */
async function exportFolder(
  client: PerdureClient,
  user: string,
  { planning, initiative }: { planning: string; initiative: string },
): Promise<number> {
  const files = planningFiles(await client.initiatives.get(user, initiative));
  await mkdir(path.dirname(planning), { recursive: true });
  await mkdir(planning).catch((error: unknown) => {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
    throw isThere ? new Error(`${planning} is there already`) : error;
  });
  for (const file of files) {
    const at = path.join(planning, file.path);
    await mkdir(path.dirname(at), { recursive: true });
    await writeFile(at, file.text, { flag: 'wx' });
  }
  console.log(`${planning}: ${files.length} files`);
  return 0;
}

async function importFolder(
  client: PerdureClient,
  user: string,
  { planning, isDryRun }: { planning: string; isDryRun: boolean },
): Promise<number> {
  const files = await filesOf(planning);
  try {
    if (isDryRun) console.log(JSON.stringify(await client.initiatives.checkPlanning(files), null, 2));
    else {
      const { initiative, report } = await client.initiatives.importPlanning(user, files);
      console.log(JSON.stringify({ initiative_id: initiative.initiative_id, ...report }, null, 2));
    }
    return 0;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    for (const { field, expected } of error.errors) console.error(`${field}: expected ${expected}`);
    return 1;
  }
}

/** The files of a folder; links are not followed. */
async function filesOf(planning: string): Promise<RawFile[]> {
  const entries = await readdir(planning, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    throw new Error(`${planning} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  if (paths.length > MAX_FILES) throw new Error(`${planning}: expected at most ${MAX_FILES} files`);
  const files: RawFile[] = [];
  let bytes = 0;
  for (const file of paths) {
    bytes += (await stat(file)).size;
    if (bytes > MAX_PLANNING_BYTES) throw new Error(`${planning}: expected at most ${MAX_PLANNING_BYTES} bytes`);
    files.push({ path: path.relative(planning, file).split(path.sep).join('/'), bytes: await readFile(file) });
  }
  return files;
}
