/** Each `set` wakes one waiter. Without a waiter it is remembered (once) and wakes the next one at once. */
export class AutoResetEvent {
  private isSet = false;
  private wake: (() => void) | undefined;

  set(): void {
    this.isSet = true;
    this.wake?.();
  }

  /** Waits until it is set, `ms` have passed or the signal fires. */
  async wait(ms: number | undefined, signal: AbortSignal | undefined): Promise<void> {
    if (!this.isSet && signal?.aborted !== true) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const wake = () => resolve();
      const timer = ms === undefined ? undefined : setTimeout(wake, ms);
      this.wake = wake;
      signal?.addEventListener('abort', wake, { once: true });
      await promise;
      signal?.removeEventListener('abort', wake);
      clearTimeout(timer);
      this.wake = undefined;
    }
    this.isSet = false;
  }
}
