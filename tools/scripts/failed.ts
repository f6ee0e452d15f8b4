// `npm run failed [-- <folder>]`: starts the Postgres that the last run with a failed test file has kept, and prints the URL of
// each failed file's database. Ctrl-C stops it.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { databaseUrl } from '../../dev/databases.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { KEPT_DATABASES, KEPT_POSTGRES } from '../test-kit/failed-run.ts';

const folder = process.argv[2] ?? path.join('.perdure', 'failed');
const dir = path.resolve(folder, KEPT_POSTGRES);
const list = path.join(dir, KEPT_DATABASES);

if (existsSync(list)) await serve();
else {
  console.error(`${folder} has no databases: no file with a database has failed in the last run`);
  process.exitCode = 1;
}

async function serve(): Promise<void> {
  const stopped = Promise.withResolvers<unknown>();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stopped.resolve);
  const postgres = await startPostgres({ dir, log: (line) => console.log(line) });
  for (const line of (await readFile(list, 'utf8')).trim().split('\n')) {
    const [file, name] = line.split('\t') as [string, string];
    console.log(`${file}: psql '${databaseUrl(postgres.url, name)}'`);
  }
  console.log('Ctrl-C stops it');
  await Promise.race([stopped.promise, postgres.exited]);
  await postgres.stop();
}
