import { type FormEvent, useState } from 'react';
import { consoleAddress } from './console-link.tsx';

interface Given {
  all: boolean;
  user: string;
  /** What else is in the address. */
  beside?: Record<string, string>;
}

/** Chooses whose sessions are shown, for those who may read the sessions of all users. */
export function ChooseUsers({ all, user, beside }: Given) {
  const [name, setName] = useState(user);
  const show = (event: FormEvent) => {
    event.preventDefault();
    const chosen = name.trim();
    location.assign(consoleAddress({ ...beside, all: 'true', ...(chosen !== '' && { user: chosen }) }));
  };
  return (
    <>
      <form onSubmit={show}>
        <label htmlFor="user">User</label>
        <input id="user" value={name} spellCheck={false} onChange={(event) => setName(event.target.value)} />
        <button type="submit">Show</button>
      </form>
      {all ? (
        <a href={consoleAddress({ ...beside })}>Only yours</a>
      ) : (
        <a href={consoleAddress({ ...beside, all: 'true' })}>All users</a>
      )}
    </>
  );
}
