import { useEffect, useState, useSyncExternalStore } from 'react';
import type { InitiativeView } from '../../wire/initiative-views.ts';
import { Blockers } from '../initiative-board/blockers.tsx';
import { Decisions } from '../initiative-board/decisions.tsx';
import { Overview } from '../initiative-board/overview.tsx';
import { ResumeContext } from '../initiative-board/resume-context.tsx';
import { Review } from '../initiative-board/review.tsx';
import { StateFileEditor } from '../initiative-board/state-file-editor.tsx';
import { Tasks } from '../initiative-board/tasks.tsx';
import { WorkSessions } from '../initiative-board/work-sessions.tsx';
import { Board } from '../initiative-parts/board.ts';
import { Notice } from '../initiative-parts/entry.tsx';
import { InitiativeList } from './initiative-list.tsx';

/** The board of an initiative, live. `isPage`: it is the whole page, whose title it sets. */
export function BoardPage({ id, isPage = true }: { id: string; isPage?: boolean }) {
  const [board, setBoard] = useState<Board>();
  useEffect(() => {
    const made = new Board(id);
    setBoard(made);
    return () => made.close();
  }, [id]);
  return board ? <Shown board={board} isPage={isPage} /> : null;
}

function Shown({ board, isPage }: { board: Board; isPage: boolean }) {
  const { data, lost, isGone, notice, told } = useSyncExternalStore(board.view.subscribe, board.view.get);
  if (isGone) return <Gone />;
  return (
    <>
      <p role="status" className={lost ? 'lost' : 'unseen'}>
        {lost ? 'The connection is lost. Reconnecting…' : told}
      </p>
      {notice !== undefined && <Notice text={notice} />}
      {data === undefined && notice === undefined && <p className="loading">Loading…</p>}
      {data !== undefined && <Content board={board} data={data} isPage={isPage} />}
    </>
  );
}

function Gone() {
  return (
    <>
      <h1>There is no such initiative</h1>
      <p className="note">It was erased, or it belongs to somebody else. These are yours:</p>
      <InitiativeList />
    </>
  );
}

function Content({ board: { api }, data, isPage }: { board: Board; data: InitiativeView; isPage: boolean }) {
  const { initiative, state, phases, decisions, blockers, sessions } = data;
  const { title, status, version } = initiative;
  useEffect(() => {
    if (!isPage) return undefined;
    const before = document.title;
    document.title = `${status === 'escalated' ? 'Needs you: ' : ''}${title} – ${before}`;
    return () => void (document.title = before);
  }, [title, status, isPage]);
  return (
    <>
      <Overview data={data} />
      {initiative.review !== null && <Review api={api} mismatches={initiative.review} />}
      <div className="board">
        <div>
          <Blockers api={api} blockers={blockers} />
          <Tasks phases={phases} position={state.position} sessions={sessions} blockers={blockers} />
        </div>
        <div>
          <WorkSessions sessions={sessions} />
          <Decisions decisions={decisions} />
          <ResumeContext context={initiative.resume_context} />
        </div>
      </div>
      <StateFileEditor api={api} version={version} />
    </>
  );
}
