import { type RefObject, useEffect, useRef } from 'react';

/** Pixels from the end that count as being at the end. */
const SLACK_PX = 48;

/** Keeps an element scrolled to its end while it grows, unless the user has scrolled away. */
export function useStickToEnd<T extends HTMLElement>(): RefObject<T | null> {
  const ref = useRef<T>(null);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    let sticks = true;
    const onScroll = () => {
      sticks = element.scrollHeight - element.scrollTop - element.clientHeight < SLACK_PX;
    };
    const stick = () => {
      if (sticks) element.scrollTop = element.scrollHeight;
    };
    const watcher = new MutationObserver(stick);
    watcher.observe(element, { childList: true, subtree: true, characterData: true });
    const sizes = new ResizeObserver(stick);
    sizes.observe(element);
    element.addEventListener('scroll', onScroll, { passive: true });
    stick();
    return () => {
      watcher.disconnect();
      sizes.disconnect();
      element.removeEventListener('scroll', onScroll);
    };
  }, []);
  return ref;
}
