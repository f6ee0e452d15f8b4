import type { Client } from '@temporalio/client';
import type { Bus } from '../../bus/bus.ts';
import type { Db } from '../../store/db.ts';
import { eraseSession, eraseUserRest, type Erased, someSessionsOf } from '../../store/erasure.ts';
import { findSession } from '../../store/sessions.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { sessionNotFound } from '../refusal-errors.ts';

/** Workflows not terminated within this time of a request are terminated by workers, from the erasure queue. */
const TERMINATE_MS = 2_000;

/**
 * Erases sessions and users. Rows are deleted in one transaction per session, which also queues the files; workers
 * remove the files within seconds. Work still in progress for an erased session finds no row to write to.
 */
export class Erasure {
  private readonly deps: { db: Db; temporal: Client; bus: Bus };

  constructor(deps: Erasure['deps']) {
    this.deps = deps;
  }

  /** @throws {PerdureError} `SessionNotFound` */
  async session(userId: string, id: string): Promise<void> {
    const found = await findSession(this.deps.db, userId, id);
    const erased = found && (await this.rows(userId, found.session_id, false));
    if (erased === undefined) throw sessionNotFound();
    await this.end(erased, Date.now() + TERMINATE_MS);
  }

  /** Repeatable. A session that the user opens meanwhile may be erased too. */
  async user(userId: string): Promise<void> {
    const { db } = this.deps;
    const deadline = Date.now() + TERMINATE_MS;
    for (let ids = await someSessionsOf(db, userId); ids.length > 0; ids = await someSessionsOf(db, userId)) {
      for (const id of ids) {
        const erased = await this.rows(userId, id, true);
        if (erased) await this.end(erased, deadline);
      }
    }
    await eraseUserRest(db, userId, userFolder('', userId));
  }

  private rows(userId: string, sessionId: string, wholeUser: boolean): Promise<Erased | undefined> {
    return eraseSession(this.deps.db, { sessionId, userId, home: userFolder('', userId), wholeUser });
  }

  /** Terminates their workflows and notifies their readers. */
  private async end({ sessions, runs }: Erased, deadline: number): Promise<void> {
    const { temporal, bus } = this.deps;
    for (const { session_id, run_seq } of runs) bus.publish({ session: session_id, run: run_seq, kind: 'abort' });
    for (const session of sessions) bus.publish({ session, kind: 'status' });
    if (Date.now() >= deadline) return;
    const terminate = (session: string) => temporal.workflow.getHandle(session).terminate('erased');
    await temporal.connection.withDeadline(deadline, () => Promise.allSettled(sessions.map(terminate))).catch(() => {});
  }
}
