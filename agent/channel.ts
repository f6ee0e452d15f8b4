/** Values on their way from one producer to one consumer. The producer is held back until its value has been taken. */
export class Channel<T> {
  private readonly waiting: { value: T; taken: () => void }[] = [];
  private over = false;
  private wake = () => {};

  /** Settles when the consumer has taken the value, or wants no more. */
  push(value: T): Promise<void> {
    if (this.over) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.waiting.push({ value, taken: resolve });
    this.wake();
    return promise;
  }

  /** No more values come, or are wanted. */
  end(): void {
    this.over = true;
    this.wake();
  }

  /** The values until `end`. */
  async *values(): AsyncGenerator<T, void, void> {
    try {
      for (;;) {
        const next = this.waiting.shift();
        if (next !== undefined) {
          yield next.value;
          next.taken();
        } else if (this.over) return;
        else await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      this.over = true;
      for (const { taken } of this.waiting.splice(0)) taken();
    }
  }
}
