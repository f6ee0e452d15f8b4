import type { UIMessage } from 'ai';

/** The tab's session in sessionStorage: kept by reloads, not shared with other tabs. */
interface Remembered {
  /** The session's id or alias at the server. */
  id: string;
  /** The session exists at the server; its first message opens it. */
  opened: boolean;
}

/** Unsent messages and their session. A duplicated tab gets a copy of both. */
interface Unsent {
  id: string;
  messages: UIMessage[];
}

const KEY = 'perdure.session';
const NAMED = /^#(ses_\w{1,64})$/;
const UNSENT_KEY = 'perdure.unsent';
/** A page being reloaded releases its lock within this time; a lock held longer belongs to another tab. */
const RELEASE_MS = 500;

/** The session of this tab. */
export class Tab {
  readonly id: string;
  private isOpened: boolean;

  constructor({ id, opened }: Remembered) {
    this.id = id;
    this.isOpened = opened;
    this.remember();
  }

  get opened(): boolean {
    return this.isOpened;
  }

  /** Records that the server has opened the session. */
  open(): void {
    this.isOpened = true;
    this.remember();
  }

  /** Unsent messages, as stored by the page before a reload. */
  get unsent(): UIMessage[] {
    try {
      const { id, messages } = JSON.parse(sessionStorage.getItem(UNSENT_KEY) ?? '') as Unsent;
      return id === this.id && Array.isArray(messages) ? messages : [];
    } catch {
      return [];
    }
  }

  keepUnsent(messages: UIMessage[]): void {
    try {
      sessionStorage.setItem(UNSENT_KEY, JSON.stringify({ id: this.id, messages } satisfies Unsent));
    } catch {
      // The storage is full: they are kept in memory only.
    }
  }

  private remember(): void {
    sessionStorage.setItem(KEY, JSON.stringify({ id: this.id, opened: this.isOpened } satisfies Remembered));
  }
}

/** The page's URL for an existing session. */
export function addressOf(sessionId: string): string {
  return `/#${sessionId}`;
}

/**
 * The tab's session. A new tab gets a new one, and so does a duplicated tab, although it starts with a copy of the
 * other tab's. A session named by the URL becomes the tab's.
 */
export async function openTab(): Promise<Tab> {
  const named = NAMED.exec(location.hash)?.[1];
  if (named !== undefined) {
    history.replaceState(null, '', '/');
    await isOurs(named);
    return new Tab({ id: named, opened: true });
  }
  const found = recall();
  if (found && (await isOurs(found.id))) return new Tab(found);
  const fresh = { id: `tab_${randomId()}`, opened: false };
  await isOurs(fresh.id);
  return new Tab(fresh);
}

/** Starts a new session in this tab, by a reload without the stored one. */
export function startAnew(): void {
  sessionStorage.removeItem(KEY);
  location.reload();
}

function recall(): Remembered | undefined {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? '') as Remembered;
    return typeof found.id === 'string' && typeof found.opened === 'boolean' ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Holds the session's lock until the page is closed. Without locks (plain HTTP, not localhost) returns true. */
async function isOurs(id: string): Promise<boolean> {
  // Undefined without a secure context, despite its type.
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) return true;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const held = locks.request(`perdure ${id}`, { signal: AbortSignal.timeout(RELEASE_MS) }, () => {
    resolve(true);
    return new Promise<never>(() => {});
  });
  held.catch(() => resolve(false));
  return promise;
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
