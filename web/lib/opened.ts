import { type ToggleEvent, useState } from 'react';

/** The sections that are open, by key: an answer that is streamed again is drawn anew. */
const opened = new Set<string>();

/** Properties of a `details` element that stays open when it is drawn anew, under a key of its own in the page. */
export function useOpened(key: string): { open: boolean; onToggle: (event: ToggleEvent<HTMLDetailsElement>) => void } {
  const [open, setOpen] = useState(opened.has(key));
  const onToggle = ({ currentTarget }: ToggleEvent<HTMLDetailsElement>) => {
    if (currentTarget.open) opened.add(key);
    else opened.delete(key);
    setOpen(currentTarget.open);
  };
  return { open, onToggle };
}
