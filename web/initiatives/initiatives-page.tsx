import './initiatives.css';
import { SignIn } from '../design/sign-in.tsx';
import { BoardPage } from './board-page.tsx';
import { InitiativeList } from './initiative-list.tsx';

/** The board of an initiative; without an id, the list of the user's initiatives. */
export function InitiativesPage({ id }: { id: string | undefined }) {
  return (
    <div className="initiatives">
      <header>
        <nav className="bar" aria-label="Pages">
          <a href="/">Chat</a>
          <a href="/i" aria-current={id === undefined ? 'page' : undefined}>
            All initiatives
          </a>
        </nav>
        <SignIn />
      </header>
      <main>
        {id === undefined ? (
          <>
            <h1>Initiatives</h1>
            <InitiativeList />
          </>
        ) : (
          <BoardPage id={id} />
        )}
      </main>
    </div>
  );
}
