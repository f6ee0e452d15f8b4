import type { Bus, Pointer } from '../../bus/bus.ts';
import { Listeners } from '../../bus/listeners.ts';

/** A bus within one process. Delivers asynchronously. */
export function createMemoryBus({ onError = () => {} }: { onError?: (error: unknown) => void } = {}): Bus {
  const listeners = new Listeners(onError);
  let closed = false;
  return {
    publish(pointer: Pointer) {
      const copy = { ...pointer };
      queueMicrotask(() => {
        if (!closed) listeners.notify(copy);
      });
    },
    subscribe: (listener) => listeners.add(listener),
    close: async () => {
      closed = true;
      listeners.clear();
    },
  };
}
