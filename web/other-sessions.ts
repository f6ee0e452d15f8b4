import type { OpenSession } from '../domain/rendezvous.ts';
import { EventStream } from './event-stream.ts';
import { Store } from './store.ts';

type RendezvousEvents = Record<'session_open' | 'session_update' | 'session_close', OpenSession> & { ready: unknown };

/** The user's sessions, newest first; undefined: not told yet. */
interface Listed {
  sessions: OpenSession[] | undefined;
}

/** Follows which sessions the user has, in this tab and elsewhere. */
export class OtherSessions {
  readonly view = new Store<Listed>({ sessions: undefined });
  private readonly stream: EventStream<RendezvousEvents>;
  private known = new Map<string, OpenSession>();
  private isReady = false;

  constructor() {
    const put = (session: OpenSession) => {
      this.known.set(session.session_id, session);
      this.show();
    };
    this.stream = new EventStream<RendezvousEvents>(
      '/api/rendezvous',
      {
        session_open: put,
        session_update: put,
        session_close: ({ session_id }) => {
          this.known.delete(session_id);
          this.show();
        },
        ready: () => {
          this.isReady = true;
          this.show();
        },
      },
      {
        connecting: () => {
          // What there is comes first; until it has come, what was there is shown.
          this.known = new Map();
          this.isReady = false;
        },
        lost: () => {},
      },
    );
  }

  close(): void {
    this.stream.close();
  }

  private show(): void {
    if (!this.isReady) return;
    const sessions = [...this.known.values()].toSorted((one, other) => (one.updated_at < other.updated_at ? 1 : -1));
    this.view.update({ sessions });
  }
}
