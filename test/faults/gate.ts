/** Something that waits for a test: who comes is known, and goes on when it opens. */
export class Gate {
  private readonly arrival = Promise.withResolvers<void>();
  private readonly opening = Promise.withResolvers<void>();

  /** Settles when somebody has come. */
  get reached(): Promise<void> {
    return this.arrival.promise;
  }

  /** Waits here until it opens. */
  pass(): Promise<void> {
    this.arrival.resolve();
    return this.opening.promise;
  }

  open(): void {
    this.opening.resolve();
  }
}
