import type pg from 'pg';
import { newId } from '../../domain/ids.ts';
import { eraseSession } from '../../store/erasure.ts';
import { createPool } from '../../store/pool.ts';
import {
  appendStateEvent,
  createStateSession,
  findStateSession,
  getStateSession,
  listStateSessions,
} from '../../store/state.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { SessionService, type SessionStore } from './service.ts';

export interface PostgresSessionOptions {
  /** A URL, for which a pool is created, or a pool of your own, which you end. */
  database: string | pg.Pool;
  /** Size of the pool that is created; default 10. */
  connections?: number;
  /** The agent of sessions that are created, which answers messages sent to them; default the name of their app. */
  agent?: string;
}

/**
 * Sessions in Perdure's database, migrated by `perdure-migrate`. They are the same sessions that hosts and workers serve: in
 * the app "perdure", `getSession` reads a session of the chat, and events appended to it are in its log.
 */
export class PostgresSessionService extends SessionService {
  private readonly pool: pg.Pool;
  private readonly isOwn: boolean;

  /** @throws {TypeError} `connections` with a pool of your own, where it has no effect */
  constructor({ database, connections, agent }: PostgresSessionOptions) {
    if (typeof database !== 'string' && connections !== undefined) {
      throw new TypeError('connections: expected none with a pool of your own');
    }
    const isOwn = typeof database === 'string';
    const pool = isOwn ? createPool(database, { max: connections ?? 10 }) : database;
    super(postgresStore(pool, agent));
    this.pool = pool;
    this.isOwn = isOwn;
  }

  /** Closes the pool that was created. */
  async end(): Promise<void> {
    if (this.isOwn) await this.pool.end();
  }
}

function postgresStore(db: pg.Pool, agent: string | undefined): SessionStore {
  return {
    create: ({ app, user, alias }, initial) =>
      createStateSession(db, { app, user, alias, sessionId: newId('ses'), agent: agent ?? app }, initial),
    get: (key, events) => getStateSession(db, key, events),
    append: (key, event, seen) => appendStateEvent(db, key, event, seen),
    list: (of, page) => listStateSessions(db, of, page),
    delete: async (key) => {
      const sessionId = await findStateSession(db, key);
      const userId = key.user;
      if (sessionId === undefined) return;
      await eraseSession(db, { sessionId, userId, home: userFolder('', userId), wholeUser: false });
    },
  };
}
