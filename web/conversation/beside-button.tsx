import { createContext, useContext } from 'react';

/** Shows a session beside the tab's own. */
export const ShowBeside = createContext<(sessionId: string) => void>(() => {});

/** Shows a session in the column beside the tab's own conversation. */
export function BesideButton({ id }: { id: string }) {
  const show = useContext(ShowBeside);
  return (
    <button type="button" className="quiet" onClick={() => show(id)}>
      Show side by side
    </button>
  );
}
