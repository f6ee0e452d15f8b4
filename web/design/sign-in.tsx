import { type FormEvent, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { access } from '../api/access.ts';

const REFUSED = 'This token is wrong or has expired. Enter another one.';
const UNKNOWN = 'The server cannot be reached to check the token. Try again in a moment.';

/** Asks for a token while the server requires one. The rest of the page stays usable. */
export function SignIn() {
  const { asks } = useSyncExternalStore(access.view.subscribe, access.view.get);
  return asks === 'nothing' ? null : <Form isRefused={asks === 'another token'} />;
}

function Form({ isRefused }: { isRefused: boolean }) {
  const [token, setToken] = useState('');
  const [isTrying, setTrying] = useState(false);
  const [isUnknown, setUnknown] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // Do not move the focus away from a field in which the user is typing.
    const active = document.activeElement;
    if (!(active instanceof HTMLTextAreaElement) || active.value === '') field.current?.focus();
  }, []);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    setTrying(true);
    const outcome = await access.enter(token.trim());
    setTrying(false);
    setUnknown(outcome === 'unknown');
    if (outcome === 'refused') setToken('');
  };
  const problem = isUnknown ? UNKNOWN : isRefused ? REFUSED : undefined;
  return (
    <form
      className="sign-in"
      aria-label="Sign in"
      data-focus-home="footer textarea"
      onSubmit={(event) => void enter(event)}
    >
      <label htmlFor="token">This server requires an access token:</label>
      <div className="entry">
        {/* Not a password, so the browser must not store it; it is forgotten when the tab is closed. */}
        <input
          ref={field}
          id="token"
          type="password"
          autoComplete="off"
          spellCheck={false}
          aria-invalid={problem !== undefined}
          aria-describedby="token-problem"
          value={token}
          onChange={(event) => setToken(event.target.value)}
        />
        <button type="submit" className="primary" disabled={token.trim() === '' || isTrying}>
          {isTrying ? 'Trying…' : 'Enter'}
        </button>
      </div>
      <p id="token-problem" className="error" role="alert">
        {problem}
      </p>
    </form>
  );
}
