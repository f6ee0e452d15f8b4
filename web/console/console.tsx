import { NumbersPage } from '../console-numbers/numbers-page.tsx';
import { consoleAddress } from '../console-parts/console-link.tsx';
import { SessionPage } from '../console-session/session-page.tsx';
import { SignIn } from '../design/sign-in.tsx';
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
        <a href={consoleAddress({})}>Console</a>
        <a href={consoleAddress({ numbers: 'hour' })}>Numbers</a>
        <a href="/">Chat</a>
      </div>
      <main>
        <SignIn />
        {session !== null ? (
          <SessionPage id={session} view={at.get('view')} after={at.get('after')} />
        ) : numbers !== null ? (
          <NumbersPage range={numbers} {...whose} />
        ) : (
          <Sessions {...whose} />
        )}
      </main>
    </>
  );
}
