import { Store } from '../lib/store.ts';
import { fetchMultiplexed } from './multiplexed.ts';
import { withToken } from './with-token.ts';

/** Whether the server accepts the page's requests. */
interface Entry {
  /** What the server requires: `a token` if none was sent, `another token` if the one sent was refused. */
  asks: 'nothing' | 'a token' | 'another token';
}

const KEY = 'perdure.token';
/** Other requests wait for the first response at most for this long. */
const FIRST_MS = 5_000;
/** A route that every authenticated user may read. */
const PROBE = '/api/sessions?limit=1';

/**
 * Authentication by bearer token, for servers that require one. The token is kept in this tab's sessionStorage and
 * never put into a URL.
 */
class Access {
  /** The first response may set the user's cookie: requests beside it would be made by another user. */
  private first: Promise<unknown> | undefined;

  readonly view = new Store<Entry>({ asks: 'nothing' });

  get isAsked(): boolean {
    return this.view.get().asks !== 'nothing';
  }

  get hasToken(): boolean {
    return this.token !== undefined;
  }

  /** `fetch` with the user's token. On 401 the page asks the user for a token; the caller gets the response, too. */
  readonly fetch = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    // Only if there is one: the very first request has to set it before any other is made.
    if (this.first) await this.first;
    const token = this.token;
    const answered = fetch(input, { ...init, headers: withToken(init.headers, token) });
    this.first ??= Promise.race([answered.catch(() => {}), delay(FIRST_MS)]);
    const response = await answered;
    this.answered(response.status, token);
    return response;
  };

  /** As `fetch`, for a response that is a stream: one connection carries those of all windows, where that is possible. */
  readonly fetchStream = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    // The connection is the user's who made the first request.
    await (this.first ?? this.check());
    return fetchMultiplexed(this.fetch, this.token, input, init);
  };

  /** @param token that of the request: a 401 for one that has been replaced meanwhile is ignored */
  private answered(status: number, token: string | undefined): void {
    if (status !== 401 || token !== this.token) return;
    this.view.update({ asks: token === undefined ? 'a token' : 'another token' });
  }

  /** Uploads a file by POST with the user's token, and reports how much of it was sent: `fetch` cannot tell. */
  async upload(
    url: string,
    file: File,
    { progress, signal }: { progress: (part: number) => void; signal: AbortSignal },
  ): Promise<{ status: number; text: string }> {
    await (this.first ?? this.check());
    signal.throwIfAborted();
    const { token } = this;
    const request = new XMLHttpRequest();
    return new Promise((resolve, reject) => {
      request.upload.addEventListener('progress', ({ loaded, total }) => progress(total > 0 ? loaded / total : 0));
      request.addEventListener('load', () => {
        this.answered(request.status, token);
        resolve({ status: request.status, text: request.responseText });
      });
      for (const event of ['error', 'abort']) request.addEventListener(event, () => reject(new TypeError(event)));
      signal.addEventListener('abort', () => request.abort());
      request.open('POST', url);
      for (const [name, value] of withToken(undefined, token)) request.setRequestHeader(name, value);
      request.send(file);
    });
  }

  /** Checks at once whether the server requires a token, instead of at the user's first message. */
  async check(): Promise<void> {
    // An unreachable server is reported by the requests that need it.
    await this.fetch(PROBE).catch(() => {});
  }

  /** Tries a token, and keeps it if the server accepts it. */
  async enter(token: string): Promise<'taken' | 'refused' | 'unknown'> {
    const status = await fetch(PROBE, { headers: withToken(undefined, token) })
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

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export const access = new Access();
