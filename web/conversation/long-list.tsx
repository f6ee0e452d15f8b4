import { type ReactElement, type RefObject, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Virtualizer } from 'virtua';
import type { Placed } from '../transcript/turns.ts';

/** The newest ones are always there, for screen readers and the browser's own search. */
const NEWEST = 50;
/** Pixels above and below the visible part that are drawn, too. */
const AROUND_PX = 1_000;

interface Props {
  items: readonly Placed[];
  /** What scrolls. */
  scrolled: RefObject<HTMLElement | null>;
  itemOf: (item: Placed) => ReactElement;
  /** Ids of messages that are always there, too: what is being changed, with what was typed. */
  kept: readonly (string | undefined)[];
}

/** Of a long conversation the messages around the visible part, the newest ones, and the one that has the focus. */
export function LongList({ items, scrolled, itemOf, kept }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const [focused, setFocused] = useState<string>();
  const first = items[0]?.message.id;
  const known = useRef(first);
  // Earlier messages were added: what is visible stays where it is.
  const isExtended = known.current !== first && items.some(({ message }) => message.id === known.current);
  useEffect(() => void (known.current = first), [first]);
  useLayoutEffect(() => {
    const outer = scrolled.current;
    if (outer === null || place.current === null) return;
    setMargin(place.current.getBoundingClientRect().top - outer.getBoundingClientRect().top + outer.scrollTop);
  }, [scrolled, first]);
  const isKept = ({ message: { id } }: Placed, index: number) =>
    index >= items.length - NEWEST || id === focused || kept.includes(id);
  return (
    <div ref={place} onFocus={({ target }) => setFocused(target.closest<HTMLElement>('.turn')?.dataset['message'])}>
      <Virtualizer
        data={items}
        scrollRef={scrolled}
        startMargin={margin}
        shift={isExtended}
        keepMounted={items.flatMap((item, index) => (isKept(item, index) ? [index] : []))}
        bufferSize={AROUND_PX}
      >
        {itemOf}
      </Virtualizer>
    </div>
  );
}
