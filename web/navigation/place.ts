import type { OpenSession } from '../../domain/rendezvous.ts';
import { Store } from '../lib/store.ts';
import { TabSession } from '../session/tab-session.ts';
import { sessionAddress, forgetOwn, openTab, ownId } from '../session/tab.ts';
import { Columns } from './columns.ts';

/** What the page shows: conversations; null: the session that the URL names does not exist for this user. */
interface Shown {
  columns: Columns | null;
}

/** The page's URL, and the conversations that it stands for. */
export class Place {
  readonly view: Store<Shown>;
  /** Number of the last change of the URL, because opening a tab takes time. */
  private turn = 0;
  /** Without the fragment, whose change is no change of place. */
  private path = location.pathname;

  private constructor(columns: (place: Place) => Columns) {
    this.view = new Store<Shown>({ columns: null });
    this.view.update({ columns: columns(this) });
    window.addEventListener('popstate', () => location.pathname !== this.path && void this.showAgain());
  }

  /** The conversations of the current URL. */
  static async open(): Promise<Place> {
    const tab = await openTab();
    return new Place((place) => place.columnsOf(tab));
  }

  /** Shows what another URL of the page stands for. */
  go(path: string): void {
    if (path !== location.pathname) history.pushState(null, '', path);
    void this.showAgain();
  }

  /** Shows a part of what is shown: `path` is the present one with the fragment of the part. */
  point(path: string): void {
    history.replaceState(null, '', path);
    // Also if the user has scrolled away from it.
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  }

  /** Whether the page shows a session, under its id or its alias. */
  isAt({ session_id, alias }: Pick<OpenSession, 'session_id' | 'alias'>): boolean {
    const shown = this.view.get().columns?.own.id;
    return shown !== undefined && (shown === session_id || shown === alias);
  }

  /** The path of a session: of the tab's own, which keeps what is not sent yet, it is the page's. */
  addressOf({ session_id, alias }: Pick<OpenSession, 'session_id' | 'alias'>): string {
    return alias !== null && alias === ownId() ? '/' : sessionAddress(session_id);
  }

  /** Starts a new session in this tab. */
  startAnew(): void {
    forgetOwn();
    this.go('/');
  }

  /** Shows what the current URL stands for now. */
  async showAgain(): Promise<void> {
    this.path = location.pathname;
    this.turn += 1;
    const { turn } = this;
    const tab = await openTab();
    if (turn === this.turn) this.put(this.columnsOf(tab));
  }

  private columnsOf(tab: Awaited<ReturnType<typeof openTab>>): Columns {
    const columns = new Columns(
      new TabSession(tab, () => {
        if (this.view.get().columns !== columns) return;
        if (tab.isNamed) this.put(null);
        else this.startAnew();
      }),
    );
    return columns;
  }

  private put(columns: Columns | null): void {
    this.view.get().columns?.leave();
    this.view.update({ columns });
  }
}
