import { useEffect, useRef, useState } from 'react';
import type { Scrolled } from '../lib/stick-to-end.ts';
import type { TabSession } from '../session/tab-session.ts';

/**
 * Shows the message that the fragment of the page's URL names; if it is an earlier one, it is read first.
 * @param session undefined: not the one that the URL stands for
 * @param scrolled what has the messages
 * @returns the message's id, once it has been read
 */
export function useLinkedMessage(
  session: TabSession | undefined,
  { ref, show }: Pick<Scrolled<HTMLElement>, 'ref' | 'show'>,
): string | undefined {
  const [linked, setLinked] = useState<{ id: string }>();
  const shown = useRef<typeof linked>(undefined);
  useEffect(() => {
    let reading = new AbortController();
    const read = async () => {
      // Only the one that was named last is shown.
      reading.abort();
      reading = new AbortController();
      const { signal } = reading;
      const id = linkedId();
      const isRead = id !== undefined && (await session?.showBackTo(id, signal)) === true;
      if (isRead && !signal.aborted) setLinked({ id });
    };
    const onChange = () => void read();
    onChange();
    window.addEventListener('hashchange', onChange);
    return () => {
      window.removeEventListener('hashchange', onChange);
      reading.abort();
    };
  }, [session]);
  // Messages that have been read are drawn a little later.
  useEffect(() => {
    if (linked === shown.current) return;
    const element = linked && ref.current?.querySelector(`[data-message="${CSS.escape(linked.id)}"]`);
    if (!element) return;
    shown.current = linked;
    show(element);
  });
  return linked?.id;
}

function linkedId(): string | undefined {
  try {
    return decodeURIComponent(location.hash.slice(1)) || undefined;
  } catch {
    return undefined;
  }
}
