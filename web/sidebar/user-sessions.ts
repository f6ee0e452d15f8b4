import type { OpenSession } from '../../domain/rendezvous.ts';
import { access } from '../api/access.ts';
import { EventStream } from '../api/event-stream.ts';
import { Store } from '../lib/store.ts';

type RendezvousEvents = Record<'session_open' | 'session_update' | 'session_close', OpenSession> & { ready: unknown };

interface Listed {
  /** The user's sessions, newest first; undefined: not known yet. */
  sessions: OpenSession[] | undefined;
  /** The connection is lost and being retried: the sessions may have changed. */
  isLost: boolean;
}

const SHARED = 'perdure sessions';
const ASK = 'ask';
const RETRY = 'retry';

/**
 * Follows the user's sessions. One of the tabs that show them follows them and broadcasts to the others: the list is
 * the same for all of them.
 */
export class UserSessions {
  readonly view = new Store<Listed>({ sessions: undefined, isLost: false });
  private readonly closing = new AbortController();
  private readonly channel = new BroadcastChannel(SHARED);
  /** Ends this tab's turn as the connected tab, or its wait for it. */
  private turn: AbortController | undefined;
  private stream: EventStream<RendezvousEvents> | undefined;

  constructor() {
    const { signal } = this.closing;
    this.channel.addEventListener('message', ({ data }: MessageEvent<Listed | typeof ASK | typeof RETRY>) => {
      if (access.hasToken) return;
      if (data === ASK) this.answer();
      else if (data === RETRY) this.stream?.reconnect();
      else this.view.update(data);
    });
    document.addEventListener('visibilitychange', () => this.takeTurn(), { signal });
    access.onAccess(() => this.takeTurn(), signal);
    this.takeTurn();
  }

  close(): void {
    this.closing.abort();
    this.turn?.abort();
    this.channel.close();
  }

  /** Tries to connect at once, instead of after a while. */
  retry(): void {
    if (this.stream) this.stream.reconnect();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no other origins
    else this.channel.postMessage(RETRY);
  }

  private takeTurn(): void {
    this.turn?.abort();
    if (document.visibilityState !== 'visible') return;
    this.turn = new AbortController();
    const { signal } = this.turn;
    // `locks` is undefined without a secure context, despite its type. Tabs with tokens may belong to different users.
    const locks = navigator.locks as LockManager | undefined;
    if (locks === undefined || access.hasToken) void this.follow(signal, () => {});
    else {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no other origins
      this.channel.postMessage(ASK);
      locks.request(SHARED, { signal }, () => this.follow(signal, () => this.answer())).catch(() => {});
    }
  }

  private answer(): void {
    const listed = this.view.get();
    if ((listed.sessions === undefined && !listed.isLost) || this.closing.signal.aborted) return;
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no other origins
    this.channel.postMessage(listed);
  }

  /** Follows the server until the signal fires. */
  private follow(signal: AbortSignal, onChange: () => void): Promise<void> {
    let known = new Map<string, OpenSession>();
    let isReady = false;
    const show = () => {
      if (!isReady) return;
      const sessions = [...known.values()].toSorted((one, other) => (one.updated_at < other.updated_at ? 1 : -1));
      this.view.update({ sessions, isLost: false });
      onChange();
    };
    const put = (session: OpenSession) => {
      known.set(session.session_id, session);
      show();
    };
    const remove = ({ session_id }: OpenSession) => {
      known.delete(session_id);
      show();
    };
    const ready = () => {
      isReady = true;
      show();
    };
    // The open sessions come first; until `ready`, keep showing the previous list.
    const connecting = () => {
      known = new Map();
      isReady = false;
    };
    const lost = () => {
      this.view.update({ isLost: true });
      onChange();
    };
    const stream = new EventStream<RendezvousEvents>(
      '/api/rendezvous',
      { session_open: put, session_update: put, session_close: remove, ready },
      { connecting, lost },
    );
    this.stream = stream;
    return new Promise((resolve) =>
      signal.addEventListener('abort', () => {
        stream.close();
        if (this.stream === stream) this.stream = undefined;
        resolve();
      }),
    );
  }
}
