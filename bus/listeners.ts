import type { BusEvent } from './bus.ts';

/** The listeners of a bus. If one throws, the error is reported and the others are still called. */
export class Listeners {
  private readonly listeners = new Set<(event: BusEvent) => void>();
  private readonly onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.onError = onError;
  }

  add(listener: (event: BusEvent) => void): () => void {
    // A wrapper, so that the same function may listen twice.
    const entry = (event: BusEvent) => listener(event);
    this.listeners.add(entry);
    return () => void this.listeners.delete(entry);
  }

  notify(event: BusEvent): void {
    for (const listener of this.listeners) {
      try {
        listener(event);
      } catch (error) {
        this.onError(error);
      }
    }
  }

  clear(): void {
    this.listeners.clear();
  }
}
