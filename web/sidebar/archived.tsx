import { useCallback, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import type { OpenSession } from '../../domain/rendezvous.ts';
import { sessionsAndArchived } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { InSidebar } from './in-sidebar.ts';
import { listed } from './listed.ts';
import { ArchivedRow } from './session-row.tsx';
import { Failed, Skeleton } from './skeleton.tsx';

interface Found {
  sessions: OpenSession[];
  /** The cursor of older ones; null: there are none. */
  next: string | null;
}

/** The archived sessions, which are read when they are opened. */
export function Archived() {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="archived" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Archived</summary>
      {isOpen && <Rows />}
    </details>
  );
}

function Rows() {
  const { actions } = useContext(InSidebar);
  const { changes } = useSyncExternalStore(actions.view.subscribe, actions.view.get);
  const [found, setFound] = useState<Found>();
  const [problem, setProblem] = useState<string>();
  const read = useCallback(async (before?: Found) => {
    setProblem(undefined);
    try {
      const { items, next } = await sessionsAndArchived(before?.next ?? undefined);
      const archived = items.filter(({ chat }) => chat.archived_at !== null).map(listed);
      setFound({ sessions: [...(before?.sessions ?? []), ...archived], next });
    } catch (error) {
      setProblem(wordsOf(error));
    }
  }, []);
  useEffect(() => void read(), [read, changes]);
  if (problem !== undefined) return <Failed words={problem} onRetry={() => void read()} />;
  if (found === undefined) return <Skeleton />;
  const { sessions, next } = found;
  return (
    <>
      {sessions.length === 0 && next === null && <p className="note">Nothing is archived.</p>}
      <ul aria-label="Archived sessions">
        {sessions.map((session) => (
          <ArchivedRow key={session.session_id} session={session} />
        ))}
      </ul>
      {next !== null && (
        <button type="button" className="quiet" onClick={() => void read(found)}>
          Look for older ones
        </button>
      )}
    </>
  );
}
