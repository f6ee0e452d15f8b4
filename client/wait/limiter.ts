/** The signal of a task that waited fired, or had fired before: the task was not begun. */
export class LeftTheLineError extends Error {
  override readonly name = 'AbortError';

  constructor() {
    super('aborted while it waited for its turn');
  }
}

/** Runs a task when it is its turn. @throws {LeftTheLineError} `signal` fired before */
export type Limit = <T>(work: () => Promise<T>, signal?: AbortSignal) => Promise<T>;

/** Runs at most `most` tasks at a time; the others wait in order, without a timeout, and leave when their signals fire. */
export class Limiter {
  readonly most: number;
  private readonly queue = new Set<() => void>();
  private running = 0;

  constructor(most: number) {
    this.most = most;
  }

  /** Number of tasks that wait. */
  get waiting(): number {
    return this.queue.size;
  }

  readonly run: Limit = async (work, signal) => {
    if (signal?.aborted === true) throw new LeftTheLineError();
    if (this.running >= this.most) await this.turn(signal);
    else this.running += 1;
    try {
      return await work();
    } finally {
      // The next task takes over this slot.
      const [next] = this.queue;
      if (next === undefined) this.running -= 1;
      else {
        this.queue.delete(next);
        next();
      }
    }
  };

  private async turn(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.queue.delete(resolve);
      // Does nothing if it has just got a slot: then it begins.
      reject(new LeftTheLineError());
    };
    this.queue.add(resolve);
    signal?.addEventListener('abort', leave, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }
}

/** Runs at most `each` tasks of a user at a time, and `most` in all, so that one user's do not keep others waiting. */
export class UserLimiter {
  private readonly all: Limiter;
  private readonly each: number;
  private readonly users = new Map<string, { limiter: Limiter; tasks: number }>();

  constructor(most: number, each = 1) {
    this.all = new Limiter(most);
    this.each = each;
  }

  /** Number of tasks that wait for those of any user, not only for their own user's. */
  get waiting(): number {
    return this.all.waiting;
  }

  /** @throws {LeftTheLineError} `signal` fired before the task was begun */
  async run<T>(user: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const own = this.users.get(user) ?? { limiter: new Limiter(this.each), tasks: 0 };
    this.users.set(user, own);
    own.tasks += 1;
    try {
      return await own.limiter.run(() => this.all.run(work, signal), signal);
    } finally {
      own.tasks -= 1;
      if (own.tasks === 0) this.users.delete(user);
    }
  }
}
