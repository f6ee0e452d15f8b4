/** Holds callers until the test opens it; the test can wait until a caller has arrived. */
export class Gate {
  private readonly arrival = Promise.withResolvers<void>();
  private readonly opening = Promise.withResolvers<void>();

  /** Settles when a caller has arrived. */
  get reached(): Promise<void> {
    return this.arrival.promise;
  }

  /** Waits until the gate opens. */
  pass(): Promise<void> {
    this.arrival.resolve();
    return this.opening.promise;
  }

  open(): void {
    this.opening.resolve();
  }
}
