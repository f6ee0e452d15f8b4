import type { Client } from '@temporalio/client';
import type pg from 'pg';
import type { Bus } from '../bus/bus.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { HIDE_USERS_KEY_EXPECTED, isHideUsersKey } from '../config/show-user.ts';
import { TASK_QUEUE_EXPECTED, TASK_QUEUE_PATTERN } from '../domain/task-queue.ts';
import { createPool } from '../store/pool.ts';
import type { S3Options } from '../store/s3.ts';
import type { Catalog } from './catalog.ts';
import type { ClientLog } from './log.ts';

export interface ClientOptions {
  /**
   * A Postgres URL, for which two pools are created so that readers never delay a command; or a pool of the caller's,
   * which commands and readers share and the caller ends.
   */
  database: string | pg.Pool;
  /** Maximum number of connections for messages and other commands; default 10. Not with a pool. */
  commandConnections?: number;
  /** Maximum number of connections for reads; default 10. Not with a pool. */
  readConnections?: number;
  /**
   * Whether statements on `database` are prepared under names, which some poolers do not support
   * (PERDURE_PREPARED_STATEMENTS). Unset: they are unless it leads to a pooler. Not with a pool.
   */
  preparedStatements?: boolean | undefined;
  /** A bus that the caller closes. Unset: the client creates one on `directDatabaseUrl`. */
  bus?: Bus;
  /** Postgres without a pooler, for LISTEN; required with a pool and without a bus. Unset: `database`. */
  directDatabaseUrl?: string;
  /** Created by `temporalClient`. */
  temporal: Client;
  /** Temporal's task queue of the installation (PERDURE_TASK_QUEUE); default `perdure`. */
  taskQueue?: string;
  /** Temporal gets a digest of users' ids, keyed by this (PERDURE_HIDE_USERS_KEY). Unset: their ids. */
  hideUsersKey?: string | undefined;
  /** Requested agents and models are checked against it. Unset: no check. */
  catalog?: Catalog;
  maxMessageBytes?: number;
  /** Longest file that is attached; default 20 MiB. */
  maxFileBytes?: number;
  /** Longest import. Unset: any. */
  maxImportBytes?: number | undefined;
  /** New attachments are stored in this bucket. Unset: in Postgres. The workers need the same. */
  s3?: S3Options | undefined;
  /** Maximum number of messages queued or being answered per session. */
  maxQueue?: number;
  log?: ClientLog;
}

/** @throws {TypeError} for options that are out of range or would have no effect */
export function refuseInvalid(options: ClientOptions): void {
  const { database, commandConnections, readConnections, bus, directDatabaseUrl } = options;
  const { maxMessageBytes, maxFileBytes, maxImportBytes, maxQueue } = options;
  const counts = { commandConnections, readConnections, maxMessageBytes, maxFileBytes, maxImportBytes, maxQueue };
  if (options.taskQueue !== undefined && !TASK_QUEUE_PATTERN.test(options.taskQueue)) {
    throw new TypeError(`taskQueue: expected ${TASK_QUEUE_EXPECTED}`);
  }
  if (options.hideUsersKey !== undefined && !isHideUsersKey(options.hideUsersKey)) {
    throw new TypeError(`hideUsersKey: expected ${HIDE_USERS_KEY_EXPECTED}`);
  }
  for (const [name, value = 1] of Object.entries(counts)) {
    if (!Number.isSafeInteger(value) || value < 1)
      throw new TypeError(`${name}: expected a whole number of at least 1`);
  }
  if (typeof database !== 'string' && (commandConnections ?? readConnections) !== undefined) {
    throw new TypeError('commandConnections, readConnections: expected none with a pool of your own');
  }
  if (typeof database !== 'string' && options.preparedStatements !== undefined) {
    throw new TypeError('preparedStatements: expected none with a pool of your own');
  }
  if (bus !== undefined && directDatabaseUrl !== undefined) {
    throw new TypeError('directDatabaseUrl: expected none with a bus of your own');
  }
}

/** The pools for commands and for reads: the caller's own, which is both, or new ones. */
export function poolsOf(options: ClientOptions, log: ClientLog): { db: pg.Pool; readDb: pg.Pool } {
  const { database, preparedStatements, commandConnections = 10, readConnections = 10 } = options;
  if (typeof database !== 'string') return { db: database, readDb: database };
  const warn = (message: string) => log.warn({}, message);
  const db = createPool(database, { max: commandConnections, preparedStatements, warn });
  const readDb = createPool(database, { max: readConnections, preparedStatements });
  // A pool replaces broken idle connections; an unhandled error event would end the process.
  for (const pool of [db, readDb]) pool.on('error', (error) => log.warn({ err: error }, 'Postgres'));
  return { db, readDb };
}

/**
 * The caller's own bus, or a new one.
 * @throws {TypeError} neither a bus nor a URL was given
 */
export function busOf({ bus, database, directDatabaseUrl }: ClientOptions, log: ClientLog): Bus {
  if (bus !== undefined) return bus;
  const connectionString = directDatabaseUrl ?? database;
  if (typeof connectionString !== 'string')
    throw new TypeError('a client over a pool needs a bus or directDatabaseUrl');
  return createPostgresBus({ connectionString, onError: (error) => log.warn({ err: error }, 'bus') });
}
