import { useSyncExternalStore } from 'react';
import { Conversation } from './conversation.tsx';
import { PhaseTrack } from './phase-track.tsx';
import { Preview } from './preview.tsx';
import { SessionList } from './session-list.tsx';
import { SignIn } from './sign-in.tsx';
import type { TabSession } from './session.ts';
import { startAnew } from './tab.ts';
import { statusWords } from './status-words.ts';

/** The page: phases and status at the top, the conversation below. */
export function Page({ session }: { session: TabSession }) {
  const view = useSyncExternalStore(session.view.subscribe, session.view.get);
  return (
    <>
      <header>
        <div className="bar">
          <h1>Perdure</h1>
          <button type="button" className="quiet" onClick={startAnew}>
            New session
          </button>
        </div>
        <SignIn />
        <SessionList own={session.id} />
        <PhaseTrack view={view} onCommand={(name) => void session.command(name)} />
      </header>
      {view.loaded ? (
        <>
          {view.preview !== null && (
            <Preview shown={view.preview} onReload={() => void session.refreshPreview({ again: true })} />
          )}
          <Conversation session={session} view={view} />
        </>
      ) : (
        <p className="loading" role="status">
          {view.lost ? statusWords(view) : 'Loading…'}
        </p>
      )}
    </>
  );
}
