import { Store } from './store.ts';

/** Whether the server accepts the page's requests. */
interface Entry {
  /** What the server requires: `a token` if none was sent, `another token` if the one sent was refused. */
  asks: 'nothing' | 'a token' | 'another token';
}

const KEY = 'perdure.token';
/** A route that every authenticated user may read. */
const PROBE = '/api/sessions?limit=1';

/**
 * Authentication by bearer token, for servers that require one. The token is kept in this tab's sessionStorage and
 * never put into a URL.
 */
class Access {
  readonly view = new Store<Entry>({ asks: 'nothing' });

  get isAsked(): boolean {
    return this.view.get().asks !== 'nothing';
  }

  get hasToken(): boolean {
    return this.token !== undefined;
  }

  /** `fetch` with the user's token. On 401 the page asks the user for a token; the caller gets the response, too. */
  readonly fetch = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const token = this.token;
    const response = await fetch(input, { ...init, headers: headersOf(init.headers, token) });
    // Ignore a 401 for a token that has been replaced meanwhile.
    if (response.status === 401 && token === this.token) {
      this.view.update({ asks: token === undefined ? 'a token' : 'another token' });
    }
    return response;
  };

  /** Checks at once whether the server requires a token, instead of at the user's first message. */
  async check(): Promise<void> {
    // An unreachable server is reported by the requests that need it.
    await this.fetch(PROBE).catch(() => {});
  }

  /** Tries a token, and keeps it if the server accepts it. */
  async enter(token: string): Promise<'taken' | 'refused' | 'unknown'> {
    const status = await fetch(PROBE, { headers: headersOf(undefined, token) })
      .then((response) => response.status)
      .catch(() => undefined);
    if (status === 401) {
      this.view.update({ asks: 'another token' });
      return 'refused';
    }
    if (status === undefined || status >= 500) return 'unknown';
    sessionStorage.setItem(KEY, token);
    this.view.update({ asks: 'nothing' });
    return 'taken';
  }

  /** Calls back each time the server accepts a new token, until the signal fires. */
  onAccess(callback: () => void, signal?: AbortSignal): void {
    let asked = this.isAsked;
    const unsubscribe = this.view.subscribe(() => {
      const was = asked;
      asked = this.isAsked;
      if (was && !asked) callback();
    });
    signal?.addEventListener('abort', unsubscribe);
  }

  private get token(): string | undefined {
    return sessionStorage.getItem(KEY) ?? undefined;
  }
}

function headersOf(init: HeadersInit | undefined, token: string | undefined): Headers {
  const headers = new Headers(init);
  if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
  return headers;
}

export const access = new Access();
