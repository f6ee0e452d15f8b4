import { useSyncExternalStore } from 'react';
import type { TabSession } from '../session/tab-session.ts';
import { sessionAddress } from '../session/tab.ts';
import { Column } from './column.tsx';

/** A second conversation beside the tab's own; below it on a narrow screen. */
export function Beside({ session, onClose }: { session: TabSession; onClose: () => void }) {
  const view = useSyncExternalStore(session.view.subscribe, session.view.get);
  return (
    <section className="beside" aria-label="Conversation beside">
      <p className="bar" data-focus-home=".composer textarea">
        <a href={sessionAddress(session.id)} target="_blank" rel="opener">
          Open in another tab
        </a>
        <button type="button" className="quiet" onClick={onClose}>
          Close this column
        </button>
      </p>
      <Column key={session.id} session={session} view={view} isBeside />
    </section>
  );
}
