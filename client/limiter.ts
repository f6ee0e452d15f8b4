/** Runs at most `most` tasks at a time; the others wait in order, without a timeout. */
export class Limiter {
  readonly most: number;
  private readonly queue: (() => void)[] = [];
  private running = 0;

  constructor(most: number) {
    this.most = most;
  }

  /** Number of tasks that wait. */
  get waiting(): number {
    return this.queue.length;
  }

  readonly run = async <T>(work: () => Promise<T>): Promise<T> => {
    if (this.running >= this.most) await new Promise<void>((resolve) => this.queue.push(resolve));
    else this.running += 1;
    try {
      return await work();
    } finally {
      // The next task takes over this slot.
      const next = this.queue.shift();
      if (next === undefined) this.running -= 1;
      else next();
    }
  };
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

  async run<T>(user: string, work: () => Promise<T>): Promise<T> {
    const own = this.users.get(user) ?? { limiter: new Limiter(this.each), tasks: 0 };
    this.users.set(user, own);
    own.tasks += 1;
    try {
      return await own.limiter.run(() => this.all.run(work));
    } finally {
      own.tasks -= 1;
      if (own.tasks === 0) this.users.delete(user);
    }
  }
}
