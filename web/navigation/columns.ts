import { Store } from '../lib/store.ts';
import { TabSession } from '../session/tab-session.ts';
import { besideTab, forgetBeside } from '../session/tab.ts';

/** The conversations of the page: the one that its URL or the tab names, and one beside it, such as a branch. */
export class Columns {
  readonly own: TabSession;
  readonly view = new Store<{ beside: TabSession | null }>({ beside: null });

  constructor(own: TabSession) {
    this.own = own;
    this.open();
  }

  /** The page shows other ones. */
  leave(): void {
    this.own.close();
    this.view.get().beside?.close();
  }

  /** Shows a session beside the first one, in place of the one that was there. */
  show(sessionId: string): void {
    this.close();
    this.open(sessionId);
  }

  close(): void {
    this.view.get().beside?.close();
    forgetBeside(this.own.id);
    this.view.update({ beside: null });
  }

  /** The given session, or the one that was shown before a reload. Its column is closed if it is erased. */
  private open(sessionId?: string): void {
    const tab = besideTab(this.own.id, sessionId);
    if (tab) this.view.update({ beside: new TabSession(tab, () => this.close()) });
  }
}
