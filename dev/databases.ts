import pg from 'pg';

/**
 * Creates a database on the server of `serverUrl`, empty or as a copy of `template`, which must have no connections.
 * @returns the new database's URL
 */
export async function createDatabase(serverUrl: string, name: string, template?: string): Promise<string> {
  const from = template === undefined ? '' : ` TEMPLATE ${pg.escapeIdentifier(template)}`;
  await administer(serverUrl, `CREATE DATABASE ${pg.escapeIdentifier(name)}${from}`);
  return databaseUrl(serverUrl, name);
}

/** Drops a database if it exists, and closes the connections that are open to it. */
export async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  await administer(serverUrl, `DROP DATABASE IF EXISTS ${pg.escapeIdentifier(name)} WITH (FORCE)`);
}

/** The URL of another database on the same server. */
export function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${encodeURIComponent(name)}`;
  return url.href;
}

/** The URL without its password, to print it. */
export function withoutPassword(url: string): string {
  const safe = new URL(url);
  safe.password = '';
  safe.searchParams.delete('password');
  return safe.href;
}

async function administer(serverUrl: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl(serverUrl, 'postgres') });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
