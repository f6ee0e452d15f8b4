import type { CustomSlotSupplier, SlotPermit, WorkflowSlotInfo } from '@temporalio/worker';

/** Of a task: of a session in the worker's cache, or of one that is replayed first. */
export type Kind = 'cached' | 'replayed';

/** Workflow tasks that may run at once, those that wait for local activities not counted, and tasks of a kind that may wait. */
interface WorkflowSlotLimits {
  cached: number;
  replayed: number;
  waiting: number;
}

/**
 * Slots for workflow tasks: `cached` for sessions in the worker's cache, `replayed` for those that it has to replay first. All
 * workflows run in one thread. When another worker stops, its sessions are replayed here; with eight at once on a busy
 * machine each took longer than the time-out of its task, and all eight were replayed again. A task that waits for a slot is
 * still in the queue of the server, where it does not time out.
 *
 * A task keeps its slot until it completes, but needs no CPU while it waits for local activities, which may be for seconds if
 * Postgres is slow. Then its slot is lent to another task.
 */
export class WorkflowSlots implements CustomSlotSupplier<WorkflowSlotInfo> {
  readonly type = 'custom';
  private readonly taken = { cached: 0, replayed: 0 };
  private readonly lent = { cached: 0, replayed: 0 };
  /** In order of arrival. */
  private readonly waiting = { cached: new Set<Grant>(), replayed: new Set<Grant>() };
  private readonly limits: WorkflowSlotLimits;

  constructor(limits: WorkflowSlotLimits) {
    this.limits = limits;
  }

  /** Lends the slot of a task that waits. The result ends that; then more may run than the limit, until they complete. */
  lend(kind: Kind): () => void {
    this.lent[kind] += 1;
    this.grant();
    return () => {
      this.lent[kind] -= 1;
    };
  }

  /** @throws the reason of the signal when the SDK gives the reservation up */
  async reserveSlot(context: { isSticky: boolean }, signal: AbortSignal): Promise<SlotPermit> {
    signal.throwIfAborted();
    const permit = this.tryReserveSlot(context);
    if (permit !== null) return permit;
    const { promise, resolve, reject } = Promise.withResolvers<SlotPermit>();
    const waiting = this.waiting[kindOf(context)];
    waiting.add(resolve);
    const abort = () => {
      waiting.delete(resolve);
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', abort, { once: true });
    return promise.finally(() => signal.removeEventListener('abort', abort));
  }

  tryReserveSlot(context: { isSticky: boolean }): SlotPermit | null {
    const kind = kindOf(context);
    return this.isFree(kind) ? this.take(kind) : null;
  }

  markSlotUsed(): void {}

  releaseSlot({ permit }: { permit: SlotPermit }): void {
    this.taken[(permit as Permit).kind] -= 1;
    this.grant();
  }

  private isFree(kind: Kind): boolean {
    const { cached, replayed } = this.lent;
    // A task of a cached session is cheap, and the SDK may take the slot of a cached one for the rest of a replayed one.
    const lent = kind === 'cached' ? cached + replayed : replayed;
    return this.taken[kind] < Math.min(this.limits[kind] + lent, this.limits.waiting);
  }

  private take(kind: Kind): Permit {
    this.taken[kind] += 1;
    return { kind };
  }

  private grant(): void {
    for (const kind of ['cached', 'replayed'] as const) {
      for (const resolve of this.waiting[kind]) {
        if (!this.isFree(kind)) break;
        this.waiting[kind].delete(resolve);
        resolve(this.take(kind));
      }
    }
  }
}

type Grant = (permit: SlotPermit) => void;

interface Permit extends SlotPermit {
  kind: Kind;
}

function kindOf({ isSticky }: { isSticky: boolean }): Kind {
  return isSticky ? 'cached' : 'replayed';
}
