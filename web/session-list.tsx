import { useEffect, useState, useSyncExternalStore } from 'react';
import { nextPhase } from '../domain/phases.ts';
import type { OpenSession } from '../domain/rendezvous.ts';
import { SessionApi } from './api.ts';
import { OtherSessions } from './other-sessions.ts';
import { confirmCancel, PHASE_WORDS } from './phase-track.tsx';
import { wordsOf } from './problem.ts';
import { addressOf } from './tab.ts';
import { isInFlight } from './transcript.ts';

const STATE_WORDS: Record<OpenSession['state'], string> = {
  idle: 'idle',
  busy: 'working',
  retrying: 'trying again',
  waiting: 'waiting for you',
  error: 'stopped by an error',
};

/** The user's other sessions. They are followed only while the list is open. */
export function SessionList({ own }: { own: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="sessions" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Other sessions</summary>
      {isOpen && <Sessions own={own} />}
    </details>
  );
}

function Sessions({ own }: { own: string }) {
  const [others, setOthers] = useState<OtherSessions>();
  useEffect(() => {
    const made = new OtherSessions();
    setOthers(made);
    return () => made.close();
  }, []);
  return others ? <Listed others={others} own={own} /> : null;
}

function Listed({ others, own }: { others: OtherSessions; own: string }) {
  const { sessions } = useSyncExternalStore(others.view.subscribe, others.view.get);
  const [notice, setNotice] = useState<string>();
  const shown = sessions?.filter(({ session_id, alias }) => session_id !== own && alias !== own);
  const command = (session: OpenSession, name: 'abort' | 'cancel') => {
    setNotice(undefined);
    new SessionApi(session.session_id).command(name).catch((error: unknown) => setNotice(wordsOf(error)));
  };
  return (
    <>
      {notice !== undefined && (
        <p className="notice" role="alert">
          {notice}
        </p>
      )}
      {shown === undefined && <p className="note">Loading…</p>}
      {shown?.length === 0 && <p className="note">No other sessions.</p>}
      <ul aria-label="Other sessions" data-focus-home=".sessions summary">
        {shown?.map((session) => (
          <Row key={session.session_id} session={session} onCommand={(name) => command(session, name)} />
        ))}
      </ul>
    </>
  );
}

interface RowProps {
  session: OpenSession;
  onCommand: (name: 'abort' | 'cancel') => void;
}

/** A session with its commands: stop the run in flight, or give up the build after a confirmation. */
function Row({ session, onCommand }: RowProps) {
  const { session_id, title, phase, state } = session;
  const name = title ?? 'No messages yet';
  const cancel = () => {
    if (confirmCancel(`the build of “${name}”`)) onCommand('cancel');
  };
  return (
    <li>
      {/* `opener` copies this tab's sessionStorage, with the token, to the new tab. */}
      <a href={addressOf(session_id)} target="_blank" rel="opener">
        {name}
      </a>
      <span className="note">
        {PHASE_WORDS[phase]}, {STATE_WORDS[state]}
      </span>
      {isInFlight({ state }) && (
        <button type="button" className="stop" aria-label={`Stop: ${name}`} onClick={() => onCommand('abort')}>
          Stop
        </button>
      )}
      {nextPhase(phase, 'cancel') !== undefined && (
        <button type="button" className="stop" aria-label={`Cancel build: ${name}`} onClick={cancel}>
          Cancel build
        </button>
      )}
    </li>
  );
}
