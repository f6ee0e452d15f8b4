import type { Bus, BusEvent } from '../../bus/bus.ts';

/** A worker that begins a turn before its workflow is woken has been heard of by then. */
const BEGUN_MS = 100;
/** A turn that makes no progress for this long, after its first one, does something that takes longer. */
const PAUSE_MS = 20;
/** A turn that lasts this long is long, whatever it does. */
const LONG_MS = 250;

/** What a turn is doing; `open`: it may not have begun. */
type State = 'open' | 'over';

/** A turn that is waited for. */
interface Waiting {
  since: number;
  hasAnswered: boolean;
  timer: NodeJS.Timeout | undefined;
  end: (state: State) => void;
}

/** Follows, by the bus, what workers do with the messages that this process has accepted. */
export class TurnProgress {
  private readonly waiting = new Map<string, Waiting>();
  private readonly unsubscribe: () => void;

  constructor(bus: Bus) {
    this.unsubscribe = bus.subscribe((event) => this.heard(event));
  }

  close(): void {
    this.unsubscribe();
  }

  /**
   * Waits until a turn that was just accepted is over; or does something that takes longer: it makes a pause of 20 ms, or
   * lasts for 250 ms; or no worker has begun it within 100 ms. Ends with the signal, too.
   */
  async untilSlow(session: string, run: number, signal: AbortSignal): Promise<State> {
    const { promise, resolve } = Promise.withResolvers<State>();
    const waiting: Waiting = { since: performance.now(), hasAnswered: false, timer: undefined, end: resolve };
    const key = keyOf(session, run);
    const end = () => resolve('open');
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    this.waiting.set(key, waiting);
    endIn(waiting, BEGUN_MS);
    const state = await promise;
    signal.removeEventListener('abort', end);
    clearTimeout(waiting.timer);
    if (this.waiting.get(key) === waiting) this.waiting.delete(key);
    return state;
  }

  private heard(event: BusEvent): void {
    if (event.kind === 'reconnected' || event.run === undefined) return;
    const waiting = this.waiting.get(keyOf(event.session, event.run));
    if (waiting === undefined) return;
    if (event.kind === 'stream') {
      if (event.over === true) return waiting.end('over');
      waiting.hasAnswered = true;
      endIn(waiting, PAUSE_MS);
    } else if (event.kind === 'status' && !waiting.hasAnswered) endIn(waiting, LONG_MS);
  }
}

function endIn(waiting: Waiting, ms: number): void {
  clearTimeout(waiting.timer);
  const left = Math.max(0, waiting.since + LONG_MS - performance.now());
  waiting.timer = setTimeout(() => waiting.end('open'), Math.min(ms, left));
}

function keyOf(session: string, run: number): string {
  return `${session}/${run}`;
}
