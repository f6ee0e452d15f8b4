import type pg from 'pg';
import type { Admission } from '../../activities/admission/admission.ts';
import type { Bus } from '../../bus/bus.ts';
import { postponeChecks } from '../../store/sweep.ts';

/** A turn that has waited for this long may begin in any worker. Below the two seconds after which a sweeper wakes it. */
const LONG_MS = 500;
/** Workers that have started since are told again. Below the ten seconds for which its check is postponed. */
const AGAIN_MS = 5_000;

interface Parts {
  admission: Admission;
  bus: Bus;
  db: pg.Pool;
}

/**
 * Tells other workers of the turns that wait for room in this one: they line up there, too, and the first worker that has room
 * begins them. In the row it says that somebody takes care of them, or sweepers would wake their workflows.
 */
export class WaitingTurns {
  private readonly parts: Parts;
  private readonly toldAt = new Map<string, number>();

  constructor(parts: Parts) {
    this.parts = parts;
  }

  /** To be called at least every second. */
  async tell(): Promise<void> {
    const { admission, bus, db } = this.parts;
    const now = performance.now();
    for (const [session, at] of this.toldAt) if (now - at > AGAIN_MS) this.toldAt.delete(session);
    const turns = admission.waitingFor(LONG_MS).filter(({ session }) => !this.toldAt.has(session));
    if (turns.length === 0) return;
    // Those that it leaves out are taken care of: another worker has told of them, or somebody begins or ends them.
    for (const { session, run } of await postponeChecks(db, turns)) {
      this.toldAt.set(session, now);
      // As far as the others know, a worker that has the workflow in its cache begins the turn.
      bus.publish({ session, kind: 'evicted' });
      bus.publish({ session, run, kind: 'accepted' });
    }
  }
}
