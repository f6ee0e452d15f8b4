import type { InitiativeChange, InitiativeView } from '../../wire/initiative-views.ts';
import { access } from '../api/access.ts';
import { EventStream } from '../api/event-stream.ts';
import { isRefusal, ProblemError, wordsOf } from '../api/problem.ts';
import { Store } from '../lib/store.ts';
import { InitiativeApi } from './initiative-api.ts';
import { keepSame } from './keep-same.ts';

/** What is known of an initiative. */
interface Known {
  /** Undefined: not read yet. */
  data: InitiativeView | undefined;
  /** The connection to the server is lost and being retried. */
  lost: boolean;
  /** There is no such initiative, or not any more. */
  isGone: boolean;
  /** Why it could not be read. */
  notice: string | undefined;
  /** What has happened last, for screen readers. */
  told: string;
}

interface BoardEvents {
  state: unknown;
  change: InitiativeChange;
}

/** Several changes in this time are read at once. */
const PACE_MS = 300;
const RETRY_MS = 2_000;

/** An initiative, read again whenever the server tells of a change. */
export class Board {
  readonly view = new Store<Known>({ data: undefined, lost: false, isGone: false, notice: undefined, told: '' });
  readonly api: InitiativeApi;
  private readonly closing = new AbortController();
  private stream: EventStream<BoardEvents> | undefined;
  private isBehind = false;
  private isReading = false;

  constructor(id: string) {
    this.api = new InitiativeApi(id);
    access.onAccess(() => this.changed(), this.closing.signal);
    this.changed();
  }

  close(): void {
    this.closing.abort();
    this.stream?.close();
  }

  /** The initiative may have changed. */
  private changed(): void {
    this.isBehind = true;
    if (!this.isReading) void this.readWhileBehind();
  }

  private async readWhileBehind(): Promise<void> {
    this.isReading = true;
    while (this.isBehind && !this.closing.signal.aborted) {
      this.isBehind = false;
      const wait = await this.read();
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    this.isReading = false;
  }

  /** Returns how long to wait before the next reading, in milliseconds. */
  private async read(): Promise<number> {
    try {
      const data = await this.api.read();
      if (this.closing.signal.aborted) return 0;
      this.view.update({ data: keepSame(this.view.get().data, data), notice: undefined });
      this.follow();
      return PACE_MS;
    } catch (error) {
      if (error instanceof ProblemError && error.code === 'InitiativeNotFound') {
        this.close();
        this.view.update({ isGone: true });
        return 0;
      }
      // The sign-in form handles 401, and the stream a lost connection.
      if (access.isAsked || this.view.get().lost) return PACE_MS;
      this.view.update({ notice: wordsOf(error) });
      this.isBehind ||= !isRefusal(error);
      return RETRY_MS;
    }
  }

  /** Follows the initiative once it has been read. The first event of each connection tells of all that was missed. */
  private follow(): void {
    let isNew = true;
    this.stream ??= new EventStream<BoardEvents>(
      this.api.eventsUrl,
      {
        state: () => {
          this.view.update({ lost: false });
          // Later ones come with the changes that have caused them.
          if (isNew) this.changed();
          isNew = false;
        },
        change: (change) => {
          const told = wordsOfChange(change);
          if (told !== undefined) this.view.update({ told });
          this.changed();
        },
      },
      {
        connecting: () => (isNew = true),
        // An initiative that was erased has no stream any more either: reading tells.
        lost: () => {
          this.view.update({ lost: true });
          this.changed();
        },
      },
    );
  }
}

/** A change that matters at once, in words. */
function wordsOfChange({ kind, data: { id } }: InitiativeChange): string | undefined {
  switch (kind) {
    case 'blocker_found':
      return `${String(id)} was found.`;
    case 'blocker_bypassed':
      return `${String(id)} is bypassed.`;
    case 'blocker_resolved':
      return `${String(id)} is resolved.`;
    case 'review_required':
      return 'A review is required.';
    case 'session_crashed':
      return `${String(id)} has crashed.`;
    default:
      return undefined;
  }
}
