import type { OpenSession } from '../../domain/rendezvous.ts';
import { SessionApi } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { confirmed } from '../design/confirmation.tsx';
import { say, sayProblem } from '../design/toasts.tsx';
import { Store } from '../lib/store.ts';
import type { Place } from '../navigation/place.ts';
import { confirmCancel } from '../panels/phase-track.tsx';
import { sessionAddress } from '../session/tab.ts';

/** What a session is called in the list. */
export function nameOf({ title }: Pick<OpenSession, 'title'>): string {
  return title ?? 'No messages yet';
}

/** What the user does with a session of the list. What has failed is said in a toast. */
export class SessionActions {
  /** How often sessions were archived, taken back or deleted here: the list of archived ones reads them again. */
  readonly view = new Store({ changes: 0 });
  private readonly place: Place;

  constructor(place: Place) {
    this.place = place;
  }

  async stop(session: OpenSession): Promise<void> {
    await attempt(() => apiOf(session).command('abort'));
  }

  async cancelBuild(session: OpenSession): Promise<void> {
    if (await confirmCancel(`the build of “${nameOf(session)}”`)) await attempt(() => apiOf(session).command('cancel'));
  }

  /** @param title empty: the first line of the first message again. @returns whether it was done */
  async rename(session: OpenSession, title: string): Promise<boolean> {
    return attempt(() => apiOf(session).rename(title.trim() === '' ? null : title.trim()));
  }

  async archive(session: OpenSession, isArchived = true): Promise<void> {
    if (!(await attempt(() => apiOf(session).archive(isArchived)))) return;
    this.changed();
    const what = `“${nameOf(session)}” is ${isArchived ? 'archived' : 'in the list again'}.`;
    say(what, isArchived ? () => void this.archive(session, false) : undefined);
  }

  async erase(session: OpenSession): Promise<void> {
    const name = nameOf(session);
    const isSure = await confirmed({
      title: `Delete “${name}”?`,
      text: 'Its messages, files and branches are erased for good, and a run in flight ends. This cannot be undone.',
      action: 'Delete',
    });
    if (!isSure) return;
    // Before it is deleted: the page may hear of that first.
    const shownAt = this.place.isAt(session) ? location.pathname : undefined;
    if (!(await attempt(() => apiOf(session).erase()))) return;
    this.changed();
    say(`“${name}” is deleted.`);
    if (location.pathname === shownAt) this.place.startAnew();
  }

  async copyLink({ session_id }: OpenSession): Promise<void> {
    if (await attempt(() => navigator.clipboard.writeText(new URL(sessionAddress(session_id), location.href).href)))
      say('The link is copied. It works for you only.');
  }

  private changed(): void {
    this.view.update({ changes: this.view.get().changes + 1 });
  }
}

function apiOf({ session_id }: OpenSession): SessionApi {
  return new SessionApi(session_id);
}

async function attempt(action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (error) {
    sayProblem(wordsOf(error));
    return false;
  }
}
