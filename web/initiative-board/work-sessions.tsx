import { memo } from 'react';
import type { WorkSession } from '../../wire/initiative-views.ts';
import { Entry, First, StatusTag, When, Words } from '../initiative-parts/entry.tsx';
import { WORK_WORDS } from '../initiative-parts/initiative-words.ts';
import { sessionAddress } from '../session/tab.ts';

const MOST = 10;

/** The work sessions along time, newest first, each with the way to its transcript. */
export const WorkSessions = memo(function WorkSessions({ sessions }: { sessions: readonly WorkSession[] }) {
  return (
    <section id="work-sessions" aria-labelledby="work-sessions-title" tabIndex={-1} data-focus-home="#work-sessions">
      <h2 id="work-sessions-title">Work sessions</h2>
      {sessions.length === 0 && <p className="note">Nobody has worked on it yet.</p>}
      <ol className="timeline">
        <First of={sessions.toReversed()} most={MOST} name="work sessions">
          {(session) => <Session key={session.id} session={session} />}
        </First>
      </ol>
    </section>
  );
});

const Session = memo(function Session({ session }: { session: WorkSession }) {
  const { id, agent, status, started, ended, working_on, context_usage } = session;
  return (
    <li data-status={status}>
      <div className="row">
        <h3>{id}</h3>
        <StatusTag status={status} words={WORK_WORDS[status]} />
        {session.session_id !== null && <Transcript of={session} />}
      </div>
      <p className="note">
        <span dir="auto">{agent}</span> · <When at={started} />
        {ended !== null && (
          <>
            {' – '}
            <When at={ended} />
          </>
        )}
        {context_usage !== null && ` · ${Math.round(context_usage * 100)}% of its context`}
      </p>
      {working_on !== null && <Words text={working_on} />}
      <Entry name="Completed">{session.completed}</Entry>
      <Entry name="Issues">{session.issues}</Entry>
      <Entry name="Handed off because">{session.handoff_reason}</Entry>
      <Entry name="Notes">{session.notes}</Entry>
    </li>
  );
});

/** The way to the chat session that an agent works in, in a tab of its own. */
export function Transcript({ of: { id, session_id } }: { of: WorkSession }) {
  return session_id === null ? null : (
    // `opener` copies this tab's sessionStorage, with the token, to the new tab.
    <a href={sessionAddress(session_id)} target="_blank" rel="opener" aria-label={`Transcript of ${id}`}>
      Transcript
    </a>
  );
}
