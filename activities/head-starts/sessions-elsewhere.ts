import { ANY_SESSION, type Bus } from '../../bus/bus.ts';

const MAX_KNOWN = 20_000;

/**
 * Sessions whose workflow another worker has in its cache, as far as this process has heard: an answer was streamed, not by this
 * worker, and the session was not evicted since. It is empty after the loss of a worker: nobody knows which sessions that had.
 */
export class SessionsElsewhere {
  private readonly known = new Set<string>();
  private readonly unsubscribe: () => void;

  constructor(bus: Bus, isHere: (sessionId: string) => boolean) {
    this.unsubscribe = bus.subscribe((event) => {
      if (event.kind === 'stream' && !isHere(event.session)) this.add(event.session);
      else if (event.kind === 'evicted' && event.session === ANY_SESSION) this.known.clear();
      else if (event.kind === 'evicted') this.known.delete(event.session);
    });
  }

  has(sessionId: string): boolean {
    return this.known.has(sessionId);
  }

  close(): void {
    this.unsubscribe();
  }

  private add(sessionId: string): void {
    if (this.known.has(sessionId)) return;
    const [oldest] = this.known;
    if (this.known.size >= MAX_KNOWN && oldest !== undefined) this.known.delete(oldest);
    this.known.add(sessionId);
  }
}
