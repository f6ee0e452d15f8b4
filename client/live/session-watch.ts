import { type Bus, type Pointer, userMark } from '../../bus/bus.ts';
import { ChangePoll, type ChangePollOptions } from './change-poll.ts';

/** Called with a pointer; undefined: anything may have changed. */
type Watcher = (pointer: Pointer | undefined) => void;

/** Watchers by what they watch. */
type Watchers = Map<string, Set<Watcher>>;

/**
 * Notifies watchers of changes of their sessions, and of the `user:` state and the rules that hold in these: at once for pointers
 * from the bus, within a second for lost pointers. One bus listener and one poll per process.
 */
export class SessionWatch {
  private readonly watchers: Watchers = new Map();
  /** By the mark of their user. */
  private readonly byUser: Watchers = new Map();
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
      else if (event.kind !== 'accepted' && event.kind !== 'evicted') this.notify(event.session, event);
      if ('user' in event && event.user !== undefined) this.userChanged(event.user, event);
    });
  }

  /**
   * Calls `watcher` on every change of a session, until the returned function is called.
   * @param user whose `user:` state and projects' rules are watched, too
   */
  watch(sessionId: string, watcher: Watcher, user?: string): () => void {
    if (add(this.watchers, sessionId, watcher)) this.poll.watch(sessionId);
    const mark = user === undefined ? undefined : userMark(user);
    if (mark !== undefined) add(this.byUser, mark, watcher);
    return () => {
      if (mark !== undefined) remove(this.byUser, mark, watcher);
      if (remove(this.watchers, sessionId, watcher)) this.poll.unwatch(sessionId);
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

  /** Notifies the user's watchers of other sessions than the pointer's, which `notify` has reached. */
  private userChanged(mark: string, pointer: Pointer): void {
    const reached = this.watchers.get(pointer.session);
    for (const watcher of this.byUser.get(mark) ?? []) if (reached?.has(watcher) !== true) watcher(pointer);
  }
}

/** @returns true if it is the first one of its key */
function add(watchers: Watchers, key: string, watcher: Watcher): boolean {
  const known = watchers.get(key);
  known?.add(watcher);
  if (known === undefined) watchers.set(key, new Set([watcher]));
  return known === undefined;
}

/** @returns true if it was the last one of its key */
function remove(watchers: Watchers, key: string, watcher: Watcher): boolean {
  const known = watchers.get(key);
  return known?.delete(watcher) === true && known.size === 0 && watchers.delete(key);
}
