import { useEffect, useMemo, useState } from 'react';
import type { OpenSession } from '../../domain/rendezvous.ts';
import { type FoundMessage, findMessages, sessionsOf } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { listed } from './listed.ts';
import { nameOf } from './session-actions.ts';
import { SessionLink, SessionRow } from './session-row.tsx';
import { Failed, Skeleton } from './skeleton.tsx';

/** Typing makes no request for each letter. */
const PAUSE_MS = 200;

interface Found {
  session: OpenSession;
  hit: FoundMessage;
}

/** The sessions whose titles or messages match what the user is looking for. */
export function SearchResults({ query, sessions }: { query: string; sessions: readonly OpenSession[] }) {
  const [found, setFound] = useState<{ query: string; hits: Found[] }>();
  const [problem, setProblem] = useState<string>();
  const [attempt, setAttempt] = useState(0);
  const known = useMemo(() => new Map(sessions.map((session) => [session.session_id, session])), [sessions]);
  useEffect(() => {
    const closing = new AbortController();
    const timer = setTimeout(() => {
      setProblem(undefined);
      find(query, known)
        .then((hits) => closing.signal.aborted || setFound({ query, hits }))
        .catch((error: unknown) => closing.signal.aborted || setProblem(wordsOf(error)));
    }, PAUSE_MS);
    return () => {
      closing.abort();
      clearTimeout(timer);
    };
    // What changes in the list while a search is shown does not repeat it.
  }, [query, attempt]);
  const named = sessions.filter((session) => nameOf(session).toLowerCase().includes(query.toLowerCase()));
  const isReady = found?.query === query;
  const hits = found?.hits ?? [];
  return (
    <div className="results" aria-busy={!isReady && problem === undefined}>
      {named.length > 0 && (
        <ul aria-label="Sessions of this name">
          {named.map((session) => (
            <SessionRow key={session.session_id} session={session} />
          ))}
        </ul>
      )}
      {problem !== undefined && <Failed words={problem} onRetry={() => setAttempt(attempt + 1)} />}
      {!isReady && problem === undefined && <Skeleton />}
      {isReady && hits.length > 0 && (
        <ul aria-label="Messages">
          {hits.map((each) => (
            <Hit key={`${each.hit.session_id} ${each.hit.message_id}`} found={each} />
          ))}
        </ul>
      )}
      {isReady && problem === undefined && hits.length + named.length === 0 && (
        <p className="note">Nothing is found. A message is found once its turn is over.</p>
      )}
    </div>
  );
}

function Hit({ found: { session, hit } }: { found: Found }) {
  return (
    <li>
      <div className="session hit">
        <SessionLink session={session} messageId={hit.hidden ? undefined : hit.message_id}>
          <span className="name">{nameOf(session)}</span>
          {hit.hidden && <span className="hidden-hit">Hidden or summarized</span>}
          <span className="snippet">{marked(hit)}</span>
        </SessionLink>
      </div>
    </li>
  );
}

function marked({ snippet, matches }: FoundMessage) {
  let at = 0;
  const pieces = matches.flatMap(({ start, end }) => {
    const piece = [snippet.slice(at, start), <mark key={start}>{snippet.slice(start, end)}</mark>];
    at = end;
    return piece;
  });
  return [...pieces, snippet.slice(at)];
}

/** The matches in sessions that the user sees in lists: not in side chats, nor in those of subagents. */
async function find(query: string, known: ReadonlyMap<string, OpenSession>): Promise<Found[]> {
  const hits = await findMessages(query);
  const ids = [...new Set(hits.map(({ session_id }) => session_id))];
  const unknown = ids.filter((id) => !known.has(id));
  // Of those that were deleted after the search, nothing comes.
  const read = unknown.length === 0 ? [] : await sessionsOf(unknown);
  const byId = new Map([...known, ...read.map((answer) => [answer.session.session_id, listed(answer)] as const)]);
  return hits.flatMap((hit) => {
    const session = byId.get(hit.session_id);
    return session ? [{ session, hit }] : [];
  });
}
