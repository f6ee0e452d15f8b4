import { Store } from './store.ts';

/** Whether the server lets the page in. */
interface Entry {
  /** It asks for a token: there was none, or not one that it takes. */
  asks: 'nothing' | 'a token' | 'another token';
}

const KEY = 'perdure.token';
/** What everyone may read who is let in. */
const DOOR = '/api/sessions?limit=1';

/**
 * How the page says who is calling, where the server wants to be told: with a bearer token, which this tab's
 * sessionStorage keeps and no address ever holds.
 */
class Access {
  readonly view = new Store<Entry>({ asks: 'nothing' });

  get isAsked(): boolean {
    return this.view.get().asks !== 'nothing';
  }

  get hasToken(): boolean {
    return this.token !== undefined;
  }

  /** As fetch, in the user's name. A 401 is the caller's to handle, too; the user is asked for a token meanwhile. */
  readonly fetch = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const token = this.token;
    const response = await fetch(input, { ...init, headers: headersOf(init.headers, token) });
    // What was asked with a token that has been replaced meanwhile says nothing of the new one.
    if (response.status === 401 && token === this.token) {
      this.view.update({ asks: token === undefined ? 'a token' : 'another token' });
    }
    return response;
  };

  /** Learns whether the server lets the page in as it is, so that the user need not find out with a message. */
  async knock(): Promise<void> {
    // A server that is not there is told of where it is needed.
    await this.fetch(DOOR).catch(() => {});
  }

  /** Tries a token; from then on it is the page's, unless the server refuses it. */
  async enter(token: string): Promise<'taken' | 'refused' | 'unknown'> {
    const status = await fetch(DOOR, { headers: headersOf(undefined, token) })
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

  /** Calls back each time that the server lets the page in again. Answers how to stop that. */
  onEntry(callback: () => void): () => void {
    let asked = this.isAsked;
    return this.view.subscribe(() => {
      const was = asked;
      asked = this.isAsked;
      if (was && !asked) callback();
    });
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
