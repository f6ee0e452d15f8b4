/** A channel from one producer to one consumer. The producer waits until its value has been taken. */
export class Channel<T> {
  private readonly waiting: { value: T; taken: () => void }[] = [];
  private over = false;
  private wake = () => {};

  /** Settles when the consumer has taken the value or stopped reading. */
  push(value: T): Promise<void> {
    if (this.over) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.waiting.push({ value, taken: resolve });
    this.wake();
    return promise;
  }

  /** The producer has no more values, or the consumer has stopped reading. */
  end(): void {
    this.over = true;
    this.wake();
  }

  /** Yields the values until `end`. */
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
