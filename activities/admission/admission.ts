import { firstLimit, type Lag, nextLimit, type StreamBounds, type StreamLimit } from './stream-limit.ts';

/** A turn whose claim was overtaken claims again within this time, unless another worker has it. */
const KEEP_MS = 1_000;

/** A stream that has begun; dispose it when the stream has ended. */
export type Admitted = Disposable;

/** The first step of a run, whose turn may have to wait. */
export interface ArrivingTurn {
  user: string;
  session: string;
  run: number;
}

/** A turn that waits. */
interface Waiting extends ArrivingTurn {
  /** Since when, by the monotonic clock. */
  since: number;
  admitNow: () => void;
  leave: () => void;
  refuse: () => void;
}

/**
 * Admits the streams of a worker: a turn's first step waits here while as many run as the worker can serve. Turns of a user are
 * admitted in order, and users take turns. Later steps and tools of turns that have begun do not wait.
 */
export class Admission {
  private readonly bounds: StreamBounds;
  private limit: StreamLimit;
  private running = 0;
  private mostRunning = 0;
  private isClosed = false;
  /** The turns of each user that wait; the user who is next comes first. */
  private readonly line = new Map<string, Waiting[]>();
  /** What waits of each session: an activity and a head start of one turn may both do. */
  private readonly sessions = new Map<string, Set<Waiting>>();
  /** Streams of turns that will claim again, by session. */
  private readonly kept = new Map<string, Admitted>();

  constructor(bounds: StreamBounds) {
    this.bounds = bounds;
    this.limit = firstLimit(bounds);
  }

  /** Number of turns that wait. */
  get waiting(): number {
    return this.sessions.size;
  }

  /** How many streams may run now. */
  get streams(): number {
    return this.limit.streams;
  }

  /** Whether a turn of this session waits. */
  holds(session: string): boolean {
    return this.sessions.has(session);
  }

  /** The turns that have waited for `ms`, one of each session. */
  waitingFor(ms: number): { session: string; run: number }[] {
    const since = performance.now() - ms;
    return [...this.sessions.values()].flatMap((turns) => [...turns].filter((turn) => turn.since <= since).slice(0, 1));
  }

  /** Whether a turn that comes now would wait. */
  get isFull(): boolean {
    return this.line.size > 0 || !this.hasRoom();
  }

  /** Another worker has begun this turn: it no longer waits here. */
  begunElsewhere(session: string, run: number): void {
    for (const turn of this.sessions.get(session) ?? []) {
      if (turn.run !== run) continue;
      this.remove(turn);
      turn.leave();
    }
  }

  /** Takes a sample of the worker's lag, one every tenth of a second. */
  note(lag: Lag): void {
    this.limit = nextLimit(this.limit, lag, this.mostRunning, this.bounds);
    this.mostRunning = this.running;
    this.advance();
  }

  /** Begins a stream if one may begin now: one is kept for the session, or there is room, and no turn waits. */
  tryAdmit(session?: string): Admitted | undefined {
    const kept = session === undefined ? undefined : this.kept.get(session);
    if (session !== undefined) this.kept.delete(session);
    return kept ?? (this.isFull ? undefined : this.begin());
  }

  /** Whether a stream is kept for the session. */
  keeps(session: string): boolean {
    return this.kept.has(session);
  }

  /** Keeps a stream that has not begun for the session's next claim, which would otherwise wait behind later turns. */
  keepFor(session: string, admitted: Admitted): void {
    this.kept.get(session)?.[Symbol.dispose]();
    this.kept.set(session, admitted);
    setTimeout(() => {
      if (this.kept.get(session) !== admitted) return;
      this.kept.delete(session);
      admitted[Symbol.dispose]();
    }, KEEP_MS).unref();
  }

  /** Counts a stream that does not wait, because its turn has begun. */
  begin(): Admitted {
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        this.running -= 1;
        this.advance();
      },
    };
  }

  /**
   * Begins a stream when it is this turn's turn, or at once when the signal fires: what stops the turn then ends it.
   * `elsewhere`: another worker has begun it. Undefined: the worker stops.
   */
  async admit({ user, session, run }: ArrivingTurn, signal: AbortSignal): Promise<Admitted | 'elsewhere' | undefined> {
    if (this.isClosed) return undefined;
    const admitted = this.tryAdmit(session);
    if (admitted !== undefined || signal.aborted) return admitted ?? this.begin();
    const { promise, resolve } = Promise.withResolvers<Admitted | 'elsewhere' | undefined>();
    const turn: Waiting = {
      ...{ user, session, run, since: performance.now() },
      admitNow: () => resolve(this.begin()),
      leave: () => resolve('elsewhere'),
      refuse: () => resolve(undefined),
    };
    const stop = () => {
      this.remove(turn);
      turn.admitNow();
    };
    this.line.set(user, [...(this.line.get(user) ?? []), turn]);
    this.sessions.set(session, (this.sessions.get(session) ?? new Set()).add(turn));
    signal.addEventListener('abort', stop, { once: true });
    return promise.finally(() => signal.removeEventListener('abort', stop));
  }

  /** Admits no further turn; those that wait get undefined. */
  close(): void {
    this.isClosed = true;
    for (const turns of this.line.values()) for (const turn of turns) turn.refuse();
    this.line.clear();
    this.sessions.clear();
  }

  private hasRoom(): boolean {
    return this.running < this.limit.streams;
  }

  private advance(): void {
    while (this.hasRoom()) {
      const [next] = this.line;
      if (next === undefined) return;
      const [user, [turn]] = next;
      if (turn === undefined) return;
      this.remove(turn);
      // The user's further turns wait behind those of all other users.
      const others = this.line.get(user);
      if (others !== undefined && this.line.delete(user)) this.line.set(user, others);
      turn.admitNow();
    }
  }

  private remove(turn: Waiting): void {
    const { user, session } = turn;
    const others = (this.line.get(user) ?? []).filter((each) => each !== turn);
    if (others.length > 0) this.line.set(user, others);
    else this.line.delete(user);
    const turns = this.sessions.get(session);
    turns?.delete(turn);
    if (turns?.size === 0) this.sessions.delete(session);
  }
}
