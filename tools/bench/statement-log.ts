// What Postgres logs of the statements that it executes.
import { setTimeout as delay } from 'node:timers/promises';
import type { System } from './servers.ts';

/** An executed statement; times in milliseconds since the epoch. */
export interface Statement {
  /** Name of the application. */
  who: string;
  /** The SQL function it calls, else its first words. */
  what: string;
  from: number;
  to: number;
}

/** Logs every statement with its end and its duration. */
export const LOG_SETTINGS = { log_line_prefix: '%n|%a|', log_min_duration_statement: '0' };

/** What Postgres logs during `work` under these settings. */
export async function withLogging(
  { db, postgresLog }: System,
  settings: Record<string, string>,
  work: () => Promise<void>,
): Promise<string> {
  const set = async (statement: (name: string) => string) => {
    for (const name of Object.keys(settings)) await db.query(statement(name));
    await db.query('SELECT pg_reload_conf()');
    await delay(100);
  };
  await set((name) => `ALTER SYSTEM SET ${name} = '${settings[name]}'`);
  const before = (await postgresLog()).length;
  await work();
  const log = (await postgresLog()).slice(before);
  await set((name) => `ALTER SYSTEM RESET ${name}`);
  return log;
}

/** Captures: end in seconds, application, duration, step, name of the prepared statement, first line. */
const TIMED = /^([\d.]+)\|([^|\n]*)\|LOG: {2}duration: ([\d.]+) ms {2}(\w+)(?: (.*?))?: (.*)/gm;

/** The statements of a log under `LOG_SETTINGS`, without those of the benchmark itself. */
export function statementsIn(log: string): Statement[] {
  const found: Statement[] = [];
  let before = { key: '', ms: 0 };
  for (const [, at = '', who = '', ms = '', step, prepared = '', text = ''] of log.matchAll(TIMED)) {
    if (who === 'bench') continue;
    const what = nameOf(text || prepared);
    const key = `${who} ${what}`;
    // Parsing and planning are logged before the execution.
    if (step === 'parse' || step === 'bind') {
      before = { key, ms: (before.key === key ? before.ms : 0) + Number(ms) };
      continue;
    }
    const to = Number(at) * 1_000;
    found.push({ who, what, from: to - Number(ms) - (before.key === key ? before.ms : 0), to });
    before = { key: '', ms: 0 };
  }
  return found;
}

/**
 * The SQL function that a statement calls, else its first words.
 * @param text its first line; if that is empty, its name as a prepared statement: a number and its beginning (store/db.ts)
 */
export function nameOf(text: string): string {
  const words = text.trim().replace(/^\d+ /, '').replaceAll(/\s+/g, ' ');
  return /^(?:SELECT (?:\* FROM )?|CALL )(\w+?)(?:_and_notify)?\(/.exec(words)?.[1] ?? words.slice(0, 30);
}
