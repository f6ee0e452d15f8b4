import { useEffect } from 'react';
import { Store } from '../lib/store.ts';
import { StoredChoice } from '../lib/stored-choice.ts';
import { sidebarState } from './sidebar-state.ts';

const IS_MAC = /mac|iphone|ipad/i.test(navigator.platform);
const MOD = IS_MAC ? '⌘' : 'Ctrl';

/** A single character may come from speech input, so users can turn it off (WCAG 2.1.4). */
export const questionKey = new StoredChoice('perdure.question-key');

/** The dialog that lists the shortcuts. */
export const shortcutsDialog = new Store({ isOpen: false });

interface Shortcut {
  /** For people. */
  keys: string;
  does: string;
  matches: (event: KeyboardEvent) => boolean;
  run: (page: { startAnew: () => void }) => void;
}

const withMod = (event: KeyboardEvent, key: string, isShifted = false) =>
  (IS_MAC ? event.metaKey : event.ctrlKey) &&
  !event.altKey &&
  event.shiftKey === isShifted &&
  event.key.toLowerCase() === key;

export const NEW_CHAT: Shortcut = {
  keys: `${MOD} Shift O`,
  does: 'Start a new chat',
  matches: (event) => withMod(event, 'o', true),
  run: ({ startAnew }) => startAnew(),
};

/** The page's shortcuts. */
export const SHORTCUTS: readonly Shortcut[] = [
  {
    keys: `${MOD} K`,
    does: 'Search your sessions',
    matches: (event) => withMod(event, 'k'),
    run: () => sidebarState.search(),
  },
  NEW_CHAT,
  {
    keys: `${MOD} B`,
    does: 'Show or hide the list of sessions',
    matches: (event) => withMod(event, 'b'),
    run: () => sidebarState.toggle(),
  },
  {
    keys: 'Shift Esc',
    does: 'Go to the message field',
    matches: ({ key, shiftKey }) => key === 'Escape' && shiftKey,
    run: () => document.querySelector<HTMLElement>('.composer textarea')?.focus(),
  },
  {
    keys: `${MOD} / or ?`,
    does: 'Show these shortcuts',
    matches: (event) => withMod(event, '/') || (event.key === '?' && questionKey.isOn && !isTyping(event.target)),
    run: () => shortcutsDialog.update({ isOpen: true }),
  },
];

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
}

/** Carries out the shortcuts while the page is shown; not while a dialog is open. */
export function useShortcuts(startAnew: () => void): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      if (document.querySelector('.dialog') !== null) return;
      const found = SHORTCUTS.find(({ matches }) => matches(event));
      if (!found) return;
      event.preventDefault();
      found.run({ startAnew });
    };
    window.addEventListener('keydown', onKeyDown);
    return () => window.removeEventListener('keydown', onKeyDown);
  }, [startAnew]);
}
