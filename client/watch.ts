import type { Bus, Pointer } from '../bus/bus.ts';
import { ChangePoll, type ChangePollOptions } from './change-poll.ts';

/** Called with a pointer; undefined: anything may have changed. */
type Watcher = (pointer: Pointer | undefined) => void;

/**
 * Notifies watchers of changes of their sessions: at once for pointers from the bus, within a second for lost pointers.
 * One bus listener and one poll per process.
 */
export class SessionWatch {
  private readonly watchers = new Map<string, Set<Watcher>>();
  private readonly poll: ChangePoll;
  private readonly unsubscribe: () => void;
  /** True after `close`: nothing is watched anymore. */
  isClosed = false;

  constructor(bus: Bus, pollOptions: Omit<ChangePollOptions, 'onChange'>) {
    this.poll = new ChangePoll({
      ...pollOptions,
      onChange: (session, run) =>
        this.notify(session, run === undefined ? undefined : { session, run, kind: 'stream' }),
    });
    this.unsubscribe = bus.subscribe((event) => {
      if (event.kind === 'reconnected') this.poll.pollNow();
      else this.notify(event.session, event);
    });
  }

  /** Calls `watcher` on every change of a session, until the returned function is called. */
  watch(sessionId: string, watcher: Watcher): () => void {
    const watchers = this.watchers.get(sessionId) ?? new Set();
    if (watchers.size === 0) {
      this.watchers.set(sessionId, watchers);
      this.poll.watch(sessionId);
    }
    watchers.add(watcher);
    return () => {
      if (!watchers.delete(watcher) || watchers.size > 0) return;
      this.watchers.delete(sessionId);
      this.poll.unwatch(sessionId);
    };
  }

  /** Notifies all watchers a last time. */
  close(): void {
    this.isClosed = true;
    this.unsubscribe();
    this.poll.close();
    for (const sessionId of this.watchers.keys()) this.notify(sessionId, undefined);
  }

  private notify(sessionId: string, pointer: Pointer | undefined): void {
    for (const watcher of this.watchers.get(sessionId) ?? []) watcher(pointer);
  }
}
