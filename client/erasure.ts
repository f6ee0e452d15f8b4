import type { Client } from '@temporalio/client';
import type { Bus } from '../bus/bus.ts';
import type { Db } from '../store/db.ts';
import { eraseSession, eraseUserRest, type Erased, someSessionsOf } from '../store/erasure.ts';
import { findSession } from '../store/sessions.ts';
import { userFolder } from '../workspaces/paths.ts';
import { sessionNotFound } from './refusals.ts';

/** A workflow that could not be terminated by then is terminated by a worker, from the queue of erasures. */
const TERMINATE_MS = 2_000;

/**
 * Erases sessions and users. Rows go in one transaction per session; workers remove the files within seconds, from a
 * queue that the same transaction fills. Whatever is still at work for an erased session finds no row to write to.
 */
export class Erasure {
  private readonly deps: { db: Db; temporal: Client; bus: Bus };

  constructor(deps: Erasure['deps']) {
    this.deps = deps;
  }

  /** @throws {PerdureError} `SessionNotFound` */
  async session(userId: string, id: string): Promise<void> {
    const found = await findSession(this.deps.db, userId, id);
    const erased = found && (await this.rows(userId, found.session_id));
    if (erased === undefined) throw sessionNotFound();
    await this.end(erased);
  }

  /** Repeatable. A session that the user opens meanwhile may be erased too. */
  async user(userId: string): Promise<void> {
    const { db } = this.deps;
    for (let ids = await someSessionsOf(db, userId); ids.length > 0; ids = await someSessionsOf(db, userId)) {
      for (const id of ids) {
        const erased = await this.rows(userId, id);
        if (erased) await this.end(erased);
      }
    }
    await eraseUserRest(db, userId, userFolder('', userId));
  }

  private rows(userId: string, sessionId: string): Promise<Erased | undefined> {
    return eraseSession(this.deps.db, { sessionId, userId, home: userFolder('', userId) });
  }

  /** Stops what works on them and tells their readers. */
  private async end({ sessions, runs }: Erased): Promise<void> {
    const { temporal, bus } = this.deps;
    for (const { session_id, run_seq } of runs) bus.publish({ session: session_id, run: run_seq, kind: 'abort' });
    for (const session of sessions) bus.publish({ session, kind: 'status' });
    const terminate = (session: string) => temporal.workflow.getHandle(session).terminate('erased');
    await temporal.connection
      .withDeadline(Date.now() + TERMINATE_MS, () => Promise.allSettled(sessions.map(terminate)))
      .catch(() => {});
  }
}
