import type { Client } from '@temporalio/client';
import type pg from 'pg';
import type { Logger } from 'pino';
import type { ShowUser } from '../../config/show-user.ts';

/** What waking workflows needs. */
export interface SweepDeps {
  db: pg.Pool;
  client: Client;
  taskQueue: string;
  showUser: ShowUser;
  log: Logger;
}
