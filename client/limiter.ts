/** Runs at most `most` tasks at a time; the others wait in order, without a timeout. */
export class Limiter {
  private readonly most: number;
  private readonly waiting: (() => void)[] = [];
  private running = 0;

  constructor(most: number) {
    this.most = most;
  }

  readonly run = async <T>(work: () => Promise<T>): Promise<T> => {
    if (this.running >= this.most) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.running += 1;
    try {
      return await work();
    } finally {
      // The next task takes over this slot.
      const next = this.waiting.shift();
      if (next === undefined) this.running -= 1;
      else next();
    }
  };
}
