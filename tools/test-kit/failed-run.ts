// What is left of a run's servers if a file has failed: logs, and a Postgres with the databases of the failed files.
import { existsSync } from 'node:fs';
import { copyFile, glob, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { execa } from 'execa';
import pg from 'pg';
import { dropDatabase } from '../../dev/databases.ts';
import { chooseAccount, locatePostgresFolder } from '../../dev/postgres-folder.ts';
import { DATABASES } from './failed-file.ts';

/** A database of a failed file. */
export interface KeptDatabase {
  /** Relative to the root. */
  file: string;
  name: string;
}

/** In a run's folder: `data`, `password`, and KEPT_DATABASES: a file and its database a line, with a tab between them. */
export const KEPT_POSTGRES = 'postgres';
export const KEPT_DATABASES = 'databases.tsv';
/** All databases that are kept. The write-ahead log has at most a gigabyte more. */
const MOST_BYTES = 1024 ** 3;

/** Removes what an earlier run has kept, also where the account of Postgres could not reach the folder. */
export async function removeKept(folder: string): Promise<void> {
  for await (const entry of glob(`**/${KEPT_POSTGRES}/data`, { cwd: folder, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const data = await realpath(path.join(entry.parentPath, entry.name)).catch(() => undefined);
    if (data !== undefined) await rm(data, { recursive: true });
  }
  await rm(folder, { recursive: true, force: true });
}

/**
 * Chooses the databases to keep, the smallest first up to a gigabyte, and drops those of all other files.
 * @param folder of the run @param url of its Postgres
 */
export async function chooseDatabases(folder: string, url: string): Promise<KeptDatabase[]> {
  const noted: KeptDatabase[] = [];
  for await (const list of glob(`**/${DATABASES}`, { cwd: folder })) {
    const names = (await readFile(path.join(folder, list), 'utf8')).trim().split('\n');
    noted.push(...names.map((name) => ({ file: path.dirname(list), name })));
  }
  if (noted.length === 0) return [];
  const kept: KeptDatabase[] = [];
  let sum = 0;
  for (const { name, bytes } of await databasesOf(url)) {
    const database = noted.find((each) => each.name === name);
    sum += database === undefined ? 0 : bytes;
    if (database !== undefined && sum <= MOST_BYTES) kept.push(database);
    else await dropDatabase(url, name);
  }
  return kept;
}

/** The databases of test files, the smallest first. */
async function databasesOf(url: string): Promise<{ name: string; bytes: number }[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string; bytes: string }>(
      `SELECT datname AS name, pg_database_size(oid) AS bytes FROM pg_database
        WHERE datname LIKE 'test\\_%' ORDER BY bytes, name`,
    );
    return rows.map(({ name, bytes }) => ({ name, bytes: Number(bytes) }));
  } finally {
    await client.end();
  }
}

/**
 * Keeps the logs of the servers and, with databases, the folder of Postgres, from which `npm run failed` starts it. The servers
 * have ended.
 * @param scratch their folder, with `postgres` in it
 */
export async function keepServers(folder: string, scratch: string, databases: readonly KeptDatabase[]): Promise<void> {
  const from = path.join(scratch, 'postgres');
  for (const log of [path.join(scratch, 'temporal.log'), path.join(from, 'postgres.log')]) {
    if (existsSync(log)) await copyFile(log, path.join(folder, path.basename(log)));
  }
  if (databases.length === 0) return;
  const to = path.join(folder, KEPT_POSTGRES);
  const data = await locatePostgresFolder(to, await chooseAccount(from), () => {});
  // Also to another file system, with owners.
  await execa('mv', [await realpath(path.join(from, 'data')), data]);
  await copyFile(path.join(from, 'password'), path.join(to, 'password'));
  const lines = databases.map(({ file, name }) => `${file}\t${name}\n`);
  await writeFile(path.join(to, KEPT_DATABASES), lines.join(''));
}

/** Lines for the user: where it is, and how to open the databases. */
export function whatIsKept(folder: string, databases: readonly KeptDatabase[]): string[] {
  const place = path.relative('', folder);
  const command = process.env['TEST_KEPT'] === undefined ? 'npm run failed' : `npm run failed -- ${place}`;
  return [
    `${place} has the logs of failed files and their servers`,
    ...databases.map(({ file, name }) => `${file} used the database ${name}: \`${command}\` starts its Postgres`),
  ];
}
