import './initiatives.css';
import type { View } from '../session/view.ts';
import { BoardPage } from './board-page.tsx';

/** The board of the initiative that the session has joined, in a panel. */
export function BoardPanel({ view: { initiative } }: { view: View }) {
  if (initiative === null) return null;
  return (
    <div className="panel-body initiatives" role="group" aria-label="Board" tabIndex={0}>
      <BoardPage id={initiative} isPage={false} />
    </div>
  );
}
