import { addAbortListener } from 'node:events';
import { MAX_TIMER_MS } from '../../domain/timer.ts';

/** The provider sent nothing for longer than a call may be silent. */
export class ModelSilentError extends Error {
  readonly code = 'timeout';

  constructor(ms: number) {
    super(`nothing arrived for ${ms / 1_000} s`);
    this.name = 'ModelSilentError';
  }
}

const limits = new WeakMap<AbortSignal, IdleLimit>();

/** Ends a model call during which nothing arrives for some time. The time counts only while the call is waited for. */
export class IdleLimit implements Disposable {
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout;
  private readonly parent: Disposable;
  private isWaiting = false;
  private isDue = false;
  private isIgnored = false;

  /**
   * @param signal ends the call, too
   * @param ms how long a call may be silent
   */
  constructor(signal: AbortSignal, ms: number) {
    this.timer = setTimeout(() => this.lapsed(ms), Math.min(ms, MAX_TIMER_MS));
    this.parent = addAbortListener(signal, () => this.controller.abort(signal.reason));
    limits.set(this.signal, this);
  }

  /** For the call. It fires with the given one, and with `ModelSilentError`. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** The time begins anew. */
  wait(): void {
    this.isWaiting = true;
    this.begin();
  }

  /** What arrives is not read meanwhile. */
  pause(): void {
    this.isWaiting = false;
  }

  /** Something has arrived. */
  heard(): void {
    this.isIgnored = false;
    this.begin();
  }

  /** Silence does not matter until something arrives. */
  ignore(): void {
    this.isIgnored = true;
  }

  private begin(): void {
    this.isDue = false;
    this.timer.refresh();
  }

  /** @throws {ModelSilentError} if the time has passed */
  throwIfSilent(): void {
    const { reason } = this.signal as { reason: unknown };
    if (reason instanceof ModelSilentError) throw reason;
  }

  /** A process that stood still reads first what has arrived meanwhile. */
  private lapsed(ms: number): void {
    this.isDue = true;
    setImmediate(() => {
      if (this.isDue && this.isWaiting && !this.isIgnored) this.controller.abort(new ModelSilentError(ms));
    });
  }

  [Symbol.dispose](): void {
    this.isWaiting = false;
    clearTimeout(this.timer);
    this.parent[Symbol.dispose]();
  }
}

/** The silence of a call, for those who read its bytes. */
export interface Silence {
  /** Something has arrived. */
  end(): void;
  /** It does not matter until something arrives. */
  ignore(): void;
}

/** The silence of the call with this signal, if there is such a call. */
export function silenceOf(signal: AbortSignal | null | undefined): Silence {
  const limit = signal ? limits.get(signal) : undefined;
  return { end: () => limit?.heard(), ignore: () => limit?.ignore() };
}
