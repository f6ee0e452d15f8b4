import type { CustomSlotSupplier, SlotPermit, WorkflowSlotInfo } from '@temporalio/worker';

/**
 * Slots for workflow tasks: `cached` for sessions in the worker's cache, `replayed` for those that it has to replay first. All
 * workflows run in one thread. When another worker stops, its sessions are replayed here; with eight at once on a busy
 * machine each took longer than the time-out of its task, and all eight were replayed again. A task that waits for a slot is
 * still in the queue of the server, where it does not time out.
 */
export function workflowSlots(limits: { cached: number; replayed: number }): CustomSlotSupplier<WorkflowSlotInfo> {
  const cached = new Slots(limits.cached);
  const replayed = new Slots(limits.replayed);
  const of = ({ isSticky }: { isSticky: boolean }) => (isSticky ? cached : replayed);
  return {
    type: 'custom',
    reserveSlot: (context, signal) => of(context).reserve(signal),
    tryReserveSlot: (context) => of(context).tryReserve(),
    markSlotUsed: () => {},
    releaseSlot: ({ permit }) => (permit as Permit).release(),
  };
}

interface Permit extends SlotPermit {
  release(): void;
}

class Slots {
  private free: number;
  /** In order of arrival. */
  private readonly waiting = new Set<(permit: Permit) => void>();

  constructor(count: number) {
    this.free = count;
  }

  tryReserve(): Permit | null {
    if (this.free === 0) return null;
    this.free -= 1;
    return this.permit();
  }

  /** @throws the reason of the signal when the SDK gives the reservation up */
  async reserve(signal: AbortSignal): Promise<Permit> {
    signal.throwIfAborted();
    const permit = this.tryReserve();
    if (permit !== null) return permit;
    const { promise, resolve, reject } = Promise.withResolvers<Permit>();
    this.waiting.add(resolve);
    const abort = () => {
      this.waiting.delete(resolve);
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', abort, { once: true });
    return promise.finally(() => signal.removeEventListener('abort', abort));
  }

  private permit(): Permit {
    return { release: () => this.release() };
  }

  private release(): void {
    const [next] = this.waiting;
    if (next === undefined) {
      this.free += 1;
      return;
    }
    this.waiting.delete(next);
    next(this.permit());
  }
}
