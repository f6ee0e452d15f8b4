import type { Bus, Pointer } from '../bus/bus.ts';

/** What a watcher is told; undefined: something may have been missed, read again. */
type Watcher = (pointer: Pointer | undefined) => void;

/** Who watches which session. One listener on the bus for all of a process, so that a pointer costs its readers only. */
export class SessionWatch {
  private readonly watchers = new Map<string, Set<Watcher>>();
  private readonly leave: () => void;

  constructor(bus: Bus) {
    this.leave = bus.subscribe((event) => {
      if (event.kind !== 'reconnected') return this.tell(this.watchers.get(event.session), event);
      for (const watchers of this.watchers.values()) this.tell(watchers, undefined);
    });
  }

  /** Tells `watcher` of everything that happens to a session until the answer is called. */
  watch(sessionId: string, watcher: Watcher): () => void {
    const watchers = this.watchers.get(sessionId) ?? new Set();
    this.watchers.set(sessionId, watchers);
    watchers.add(watcher);
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.watchers.get(sessionId) === watchers) this.watchers.delete(sessionId);
    };
  }

  close(): void {
    this.leave();
    this.watchers.clear();
  }

  private tell(watchers: Set<Watcher> | undefined, pointer: Pointer | undefined): void {
    for (const watcher of watchers ?? []) watcher(pointer);
  }
}

/** A bell that wakes one waiter. Rung while nobody waits, it wakes the next one at once; rung twice, it wakes once. */
export class Bell {
  private rung = false;
  private wake: (() => void) | undefined;

  ring(): void {
    this.rung = true;
    this.wake?.();
  }

  /** Waits until it rings, `ms` are over or the signal fires. */
  async wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (!this.rung && signal?.aborted !== true) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const wake = () => resolve();
      const timer = setTimeout(wake, ms);
      this.wake = wake;
      signal?.addEventListener('abort', wake, { once: true });
      await promise;
      signal?.removeEventListener('abort', wake);
      clearTimeout(timer);
      this.wake = undefined;
    }
    this.rung = false;
  }
}
