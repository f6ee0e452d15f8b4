import { useEffect } from 'react';
import { access } from '../api/access.ts';
import type { Place } from '../navigation/place.ts';
import { sidebarState } from '../navigation/sidebar-state.ts';

/** In place of a conversation that the URL names and that does not exist, or not for this user: the server tells no difference. */
export function Missing({ place }: { place: Place }) {
  useEffect(() => {
    const leaving = new AbortController();
    // Another user may have signed in, whose conversation it is.
    access.onAccess(() => void place.showAgain(), leaving.signal);
    return () => leaving.abort();
  }, [place]);
  return (
    <main className="conversation" aria-label="Conversation">
      <div className="welcome missing">
        <p>This link leads to no conversation of yours. It may have been deleted, or it belongs to somebody else.</p>
        <div className="commands">
          <button type="button" className="primary" onClick={() => place.startAnew()}>
            New chat
          </button>
          <button type="button" onClick={() => sidebarState.search()}>
            Find a session
          </button>
        </div>
      </div>
    </main>
  );
}
