import type { Waiting } from '../transcript/transcript.ts';

/** The tab's session in sessionStorage: kept by reloads, not shared with other tabs. */
interface Remembered {
  /** The session's id or alias at the server. */
  id: string;
  /** The session exists at the server; its first message opens it. */
  opened: boolean;
}

/** Where the id of the tab's session is stored. */
const KEY = 'perdure.session';
/** Followed by the id of a session: where the id of the one beside it is stored. */
const BESIDE_KEY = 'perdure.beside.';
const NAMED = /^\/s\/([^/]+)$/;
/** Followed by the id of the session. A duplicated tab has another session, so it does not send them again. */
const UNSENT_KEY = 'perdure.waiting.';
/** A page being reloaded releases its lock within this time; a lock held longer belongs to another tab. */
const RELEASE_MS = 500;

/** The session of this tab, the one that its URL names, or the one that is shown beside it. */
export class Tab {
  readonly id: string;
  private isOpened: boolean;
  private readonly key: string | null;

  /** @param key where it is stored; null: its URL names it */
  constructor({ id, opened }: Remembered, key: string | null = KEY) {
    this.id = id;
    this.isOpened = opened;
    this.key = key;
    this.remember();
  }

  /** It is not the tab's own: the URL names it. */
  get isNamed(): boolean {
    return this.key === null;
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
  get unsent(): Waiting[] {
    try {
      const entries: unknown = JSON.parse(sessionStorage.getItem(UNSENT_KEY + this.id) ?? '');
      return Array.isArray(entries) ? (entries as Waiting[]) : [];
    } catch {
      return [];
    }
  }

  keepUnsent(entries: Waiting[]): void {
    try {
      if (entries.length === 0) sessionStorage.removeItem(UNSENT_KEY + this.id);
      else sessionStorage.setItem(UNSENT_KEY + this.id, JSON.stringify(entries));
    } catch {
      // The storage is full: they are kept in memory only.
    }
  }

  private remember(): void {
    if (this.key === null) return;
    sessionStorage.setItem(this.key, JSON.stringify({ id: this.id, opened: this.isOpened } satisfies Remembered));
  }
}

/** The page's URL for an existing session. */
export function sessionAddress(sessionId: string): string {
  return `/s/${encodeURIComponent(sessionId)}`;
}

/**
 * The session that the URL names, else the tab's own. A new tab gets a new one, and so does a duplicated tab, although it
 * starts with a copy of the other tab's.
 */
export async function openTab(): Promise<Tab> {
  const named = namedBy(location.pathname);
  if (named !== undefined) return new Tab({ id: named, opened: true }, null);
  const found = recall(KEY);
  if (found && (await isOurs(found.id, AbortSignal.timeout(RELEASE_MS)))) return new Tab(found);
  const fresh = { id: `tab_${randomId()}`, opened: false };
  // Not awaited: no other page can hold this lock, and what is written meanwhile would go to the session before.
  void isOurs(fresh.id);
  return new Tab(fresh);
}

function namedBy(pathname: string): string | undefined {
  const name = NAMED.exec(pathname)?.[1];
  try {
    return name && decodeURIComponent(name);
  } catch {
    // The server has no session of such a name, and says so.
    return name;
  }
}

/** The id of the tab's own session. */
export function ownId(): string | undefined {
  return recall(KEY)?.id;
}

/** Takes the tab its own session; the next one is new. */
export function forgetOwn(): void {
  sessionStorage.removeItem(KEY);
}

/** The session beside another: the given one, or the one that was shown before a reload. */
export function besideTab(own: string, id?: string): Tab | undefined {
  const key = BESIDE_KEY + own;
  const found = id === undefined ? recall(key) : { id, opened: true };
  return found && new Tab(found, key);
}

export function forgetBeside(own: string): void {
  sessionStorage.removeItem(BESIDE_KEY + own);
}

function recall(key: string): Remembered | undefined {
  try {
    const found = JSON.parse(sessionStorage.getItem(key) ?? '') as Remembered;
    return typeof found.id === 'string' && typeof found.opened === 'boolean' ? found : undefined;
  } catch {
    return undefined;
  }
}

/** The locks that this page holds or waits for, by session. */
const ours = new Map<string, Promise<boolean>>();

/**
 * Holds the session's lock until the page is closed. Without locks (plain HTTP, not localhost) returns true.
 * @param signal ends the wait for a lock that another page holds; then returns false
 */
function isOurs(id: string, signal?: AbortSignal): Promise<boolean> {
  const known = ours.get(id);
  if (known !== undefined) return known;
  // Undefined without a secure context, despite its type.
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) return Promise.resolve(true);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  ours.set(id, promise);
  const held = locks.request(`perdure ${id}`, { ...(signal && { signal }) }, () => {
    resolve(true);
    return new Promise<never>(() => {});
  });
  held.catch(() => {
    ours.delete(id);
    resolve(false);
  });
  return promise;
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
