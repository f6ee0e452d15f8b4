import { SignIn } from '../design/sign-in.tsx';
import { addressOf } from '../console-parts/console-link.tsx';
import { Numbers } from '../console-numbers/numbers-page.tsx';
import { SessionPage } from '../console-session/session-page.tsx';
import { Sessions } from './sessions.tsx';

/**
 * The console: for developers and operators, and for reading only. Its address says what it shows, so it can be passed on.
 * @param at the query of the page's address
 */
export function Console({ at }: { at: URLSearchParams }) {
  const session = at.get('session');
  const numbers = at.get('numbers');
  const whose = { all: at.get('all') === 'true', user: at.get('user') ?? '' };
  return (
    <>
      <div className="top" role="banner">
        <a href={addressOf({})}>Console</a>
        <a href={addressOf({ numbers: 'hour' })}>Numbers</a>
        <a href="/">Chat</a>
      </div>
      <main>
        <SignIn />
        {session !== null ? (
          <SessionPage id={session} view={at.get('view')} after={at.get('after')} />
        ) : numbers !== null ? (
          <Numbers range={numbers} {...whose} />
        ) : (
          <Sessions {...whose} />
        )}
      </main>
    </>
  );
}
