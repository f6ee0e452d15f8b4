import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Env } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { DevError } from './error.ts';
import { onceOrphaned } from './orphaned.ts';
import { OUR_ENTRIES, startStack, type Addresses, type Entries, type Stack } from './stack.ts';

/** Width of the longest name of a part. */
const NAME_WIDTH = 12;
const STARTING_MS = 300;

/**
 * Runs everything until SIGINT, SIGTERM, SIGHUP or the end of npm, and prints what happens. A second signal exits at once;
 * the watchers of the servers then stop them.
 * @returns the addresses once everything runs; undefined: it is stopping
 */
export async function runInTerminal(env: Env, entries: Entries = OUR_ENTRIES): Promise<Addresses | undefined> {
  const stopping = new AbortController();
  const starting = startStack(env, entries, say, stopping.signal);
  const stop = (reason: string) => {
    if (stopping.signal.aborted) process.exit(1);
    stopping.abort();
    say('perdure', `${reason}, stopping`);
    void stopAll(starting);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  onceOrphaned(env, () => stop('npm has ended'));
  // The terminal may close before this process ends.
  process.stdout.on('error', () => {});
  try {
    const { addresses } = await starting;
    if (stopping.signal.aborted) return undefined;
    console.log(`\n${summary(addresses, env)}\n`);
    return addresses;
  } catch (error) {
    if (stopping.signal.aborted) return undefined;
    const expected = error instanceof DevError || error instanceof ConfigError;
    console.error(expected ? `perdure: ${error.message}` : error);
    process.exit(1);
  }
}

async function stopAll(starting: Promise<Stack>): Promise<void> {
  // Nothing is in flight before all parts run: their watchers stop those that are starting.
  const stack = await Promise.race([starting.catch(() => {}), delay(STARTING_MS)]);
  await stack?.stop().catch(() => {});
  say('perdure', 'stopped');
  process.exit(0);
}

function say(part: string, line: string): void {
  console.log(`${part.padEnd(NAME_WIDTH)}${line}`);
}

function summary(addresses: Addresses, env: Env): string {
  const dir = path.relative(process.cwd(), path.resolve(env['PERDURE_DIR'] || '.perdure'));
  const password = env['DATABASE_URL'] ? '' : `  (password in ${path.join(dir, 'postgres', 'password')})`;
  const rows: [string, string | undefined][] = [
    ['Chat page', addresses.page],
    ['API', addresses.api],
    ['Temporal', addresses.temporal],
    ['Temporal UI', addresses.temporalUi],
    ['Postgres', `${addresses.postgres}${password}`],
  ];
  const lines = rows.flatMap(([name, address]) =>
    address === undefined ? [] : [`  ${name.padEnd(NAME_WIDTH)}${address}`],
  );
  return [...lines, '', `  Ctrl-C stops all of it; everything is kept in ${dir}/`].join('\n');
}
