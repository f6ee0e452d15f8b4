import { useSyncExternalStore } from 'react';
import { access } from '../api/access.ts';
import { agesOf, familiesOf, type Family } from './family.ts';
import { nameOf } from './session-actions.ts';
import { SessionRow } from './session-row.tsx';
import { Failed, Skeleton } from './skeleton.tsx';
import type { UserSessions } from './user-sessions.ts';

/** The user's open sessions by age, live. */
export function SessionList({ sessions }: { sessions: UserSessions }) {
  const { sessions: known, isLost } = useSyncExternalStore(sessions.view.subscribe, sessions.view.get);
  const { asks } = useSyncExternalStore(access.view.subscribe, access.view.get);
  if (known === undefined) {
    if (asks !== 'nothing') return <p className="note">Your sessions are listed once you have signed in.</p>;
    if (!isLost) return <Skeleton />;
    return <Failed words="Your sessions cannot be listed right now." onRetry={() => sessions.retry()} />;
  }
  if (known.length === 0)
    return <p className="note">No sessions yet. Each conversation that you start is listed here.</p>;
  return (
    <>
      {isLost && <p className="note">The connection is lost; what is listed may have changed.</p>}
      {agesOf(familiesOf(known), new Date()).map(({ name, families }) => (
        <section key={name}>
          <h2 className="label">{name}</h2>
          <ul aria-label={name}>
            {families.map((family) => (
              <Member key={family.session.session_id} family={family} />
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

function Member({ family: { session, branches } }: { family: Family }) {
  return (
    <SessionRow session={session}>
      {branches.length > 0 && (
        <ul className="branches" aria-label={`Branches of ${nameOf(session)}`}>
          {branches.map((family) => (
            <Member key={family.session.session_id} family={family} />
          ))}
        </ul>
      )}
    </SessionRow>
  );
}
