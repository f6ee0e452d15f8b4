import type { UIMessage } from 'ai';

/** What a tab remembers of its session; a reload keeps it, another tab never sees it. */
interface Remembered {
  /** The alias under which the server knows the session. */
  id: string;
  /** The server has the session: before its first message there is none. */
  opened: boolean;
}

/** Of which session; a duplicated tab comes with a copy, too. */
interface Unsent {
  id: string;
  messages: UIMessage[];
}

const KEY = 'perdure.session';
const NAMED = /^#(ses_\w{1,64})$/;
const UNSENT_KEY = 'perdure.unsent';
/** A page that is being reloaded lets go of its lock within this time; one that still holds it then is another tab. */
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

  /** The server has made the session. */
  open(): void {
    this.isOpened = true;
    this.remember();
  }

  /** Messages that have not got through, as they were when the page was last there. */
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
      // There is no more room: they are kept for as long as the page lives.
    }
  }

  private remember(): void {
    sessionStorage.setItem(KEY, JSON.stringify({ id: this.id, opened: this.isOpened } satisfies Remembered));
  }
}

/** Where a tab comes up with a session that is there already. */
export function addressOf(sessionId: string): string {
  return `/#${sessionId}`;
}

/**
 * The tab's session, or a new one: in a new tab, and in a duplicated one, which comes with a copy of the other's. A
 * session that the address names is the tab's from then on.
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

/** Forgets the tab's session: the next page in this tab begins a new one. */
export function forgetTab(): void {
  sessionStorage.removeItem(KEY);
}

function recall(): Remembered | undefined {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? '') as Remembered;
    return typeof found.id === 'string' && typeof found.opened === 'boolean' ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Takes the session's lock for as long as the page lives. Without locks (plain HTTP, not localhost) nobody is refused. */
async function isOurs(id: string): Promise<boolean> {
  // The type says that it is always there.
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
