import { PerdureError } from '../../domain/errors.ts';
import { UserLimiter } from '../wait/limiter.ts';

/** How much a sender has to send in how many milliseconds, 16 KiB/s, while others wait for its place. */
const WINDOW_MS = 5_000;
const LEAST_BYTES = 80 * 1024;

/**
 * Receives contents of users: `each` of a user at a time, and `most` in all; the others wait. A sender that is slow or sends nothing
 * loses its place if somebody waits for it.
 */
export class Receiving {
  private readonly places: UserLimiter;
  /** Places that are about to be free. */
  private given = 0;

  constructor(most: number, each: number) {
    this.places = new UserLimiter(most, each);
  }

  /**
   * @throws {PerdureError} `Unavailable` for a slow sender; what `work` throws
   * @throws {LeftTheLineError} `signal` fired before the sender got a place
   */
  run<T>(
    { user, signal }: { user: string; signal: AbortSignal | undefined },
    content: AsyncIterable<Uint8Array>,
    work: (content: AsyncIterable<Uint8Array>) => Promise<T>,
  ): Promise<T> {
    const receive = async () => {
      let gives = false;
      const give = () => {
        if (gives || this.given >= this.places.waiting) return gives;
        gives = true;
        this.given += 1;
        return true;
      };
      try {
        return await work(unlessSlow(content, give));
      } finally {
        if (gives) this.given -= 1;
      }
    };
    return this.places.run(user, receive, signal);
  }
}

/** A content as it arrives. @param give asks whether a slow sender is to give up */
async function* unlessSlow(content: AsyncIterable<Uint8Array>, give: () => boolean): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  // Not while what has arrived is being stored.
  let giveUp: ((error: Error) => void) | undefined;
  const timer = setInterval(() => {
    if (giveUp !== undefined && bytes < LEAST_BYTES && give()) giveUp(tooSlow());
    bytes = 0;
  }, WINDOW_MS);
  const source = content[Symbol.asyncIterator]();
  try {
    for (;;) {
      // A race with a promise that does not settle would keep each piece until the end.
      const next = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        giveUp = reject;
        source.next().then(resolve, reject);
      });
      giveUp = undefined;
      if (next.done === true) return;
      bytes += next.value.length;
      yield next.value;
    }
  } finally {
    clearInterval(timer);
    // Of a sender that sends nothing it settles when the connection ends.
    source.return?.().catch(() => {});
  }
}

function tooSlow(): PerdureError {
  return new PerdureError('Unavailable', 'the body arrived too slowly while others waited; try again');
}
