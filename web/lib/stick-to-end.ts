import { type RefObject, useCallback, useEffect, useRef, useState } from 'react';

/** Pixels from the end that count as being at the end. */
const SLACK_PX = 48;
/** Pixels from the start from which what is before it is wanted. */
const NEAR_START_PX = 800;

/** An element that scrolls. */
export interface Scrolled<T extends HTMLElement> {
  ref: RefObject<T | null>;
  isAtEnd: boolean;
  /** Scrolls to the end, and stays there. */
  toEnd: () => void;
  /** Scrolls to an element in it, and stays there although it grows, unless that is at the end. */
  show: (element: Element) => void;
}

/**
 * Keeps an element scrolled to its end while it grows, unless the user has scrolled away.
 * @param onNearStart called while the user scrolls up near the start
 */
export function useStickToEnd<T extends HTMLElement>(onNearStart: () => void): Scrolled<T> {
  const ref = useRef<T>(null);
  const sticks = useRef(true);
  const [isAtEnd, setAtEnd] = useState(true);
  const nearStart = useRef(onNearStart);
  useEffect(() => void (nearStart.current = onNearStart));
  const toEnd = useCallback(() => {
    sticks.current = true;
    setAtEnd(true);
    ref.current?.scrollTo({ top: ref.current.scrollHeight });
  }, []);
  const show = useCallback((element: Element) => {
    const outer = ref.current;
    if (!outer) return;
    element.scrollIntoView({ block: 'center' });
    sticks.current = isEndOf(outer);
    setAtEnd(sticks.current);
  }, []);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    let top = element.scrollTop;
    const onScroll = () => {
      const isUp = element.scrollTop < top;
      top = element.scrollTop;
      // A list that measures its items changes its height, which is no wish of the user.
      if (isEndOf(element)) sticks.current = true;
      else if (isUp) sticks.current = false;
      setAtEnd(sticks.current);
      if (isUp && top < NEAR_START_PX) nearStart.current();
    };
    const stick = () => {
      if (sticks.current) element.scrollTop = element.scrollHeight;
    };
    const watcher = new MutationObserver(stick);
    watcher.observe(element, { childList: true, subtree: true, characterData: true });
    const sizes = new ResizeObserver(stick);
    sizes.observe(element);
    for (const child of element.children) sizes.observe(child);
    // At the very start nothing scrolls: what could not be read is asked for again.
    const onWheel = ({ deltaY }: WheelEvent) => {
      if (deltaY < 0 && element.scrollTop < NEAR_START_PX) nearStart.current();
    };
    element.addEventListener('scroll', onScroll, { passive: true });
    element.addEventListener('wheel', onWheel, { passive: true });
    stick();
    return () => {
      watcher.disconnect();
      sizes.disconnect();
      element.removeEventListener('scroll', onScroll);
      element.removeEventListener('wheel', onWheel);
    };
  }, []);
  return { ref, isAtEnd, toEnd, show };
}

/** Whether it is scrolled to its end. */
function isEndOf({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean {
  return scrollHeight - scrollTop - clientHeight < SLACK_PX;
}
