import { type RefObject, useEffect, useState } from 'react';
import type { TabSession } from '../session/tab-session.ts';

/**
 * Shows the message that the fragment of the page's URL names; if it is an earlier one, it is read first.
 * @param session undefined: not the one that the URL stands for
 * @param main what scrolls
 * @param leaveEnd called before it does
 * @returns the message's id, once it has been read
 */
export function useLinkedMessage(
  session: TabSession | undefined,
  { main, leaveEnd }: { main: RefObject<HTMLElement | null>; leaveEnd: () => void },
): string | undefined {
  const [linked, setLinked] = useState<{ id: string }>();
  useEffect(() => {
    const closing = new AbortController();
    const { signal } = closing;
    const show = async () => {
      const id = linkedId();
      const isRead = id !== undefined && (await session?.showBackTo(id, signal)) === true;
      if (isRead && !signal.aborted) setLinked({ id });
    };
    void show();
    window.addEventListener('hashchange', () => void show(), { signal });
    return () => closing.abort();
  }, [session]);
  useEffect(() => {
    const element = linked && main.current?.querySelector(`[data-message="${CSS.escape(linked.id)}"]`);
    if (!element) return;
    leaveEnd();
    element.scrollIntoView({ block: 'center' });
  }, [linked, main, leaveEnd]);
  return linked?.id;
}

function linkedId(): string | undefined {
  try {
    return decodeURIComponent(location.hash.slice(1)) || undefined;
  } catch {
    return undefined;
  }
}
