import {
  ChevronDoubleLeftIcon,
  MagnifyingGlassIcon,
  PlusIcon,
  QuestionMarkCircleIcon,
} from '@heroicons/react/20/solid';
import { type KeyboardEvent, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { OpenSession } from '../../domain/rendezvous.ts';
import { IconButton } from '../design/icon-button.tsx';
import type { Place } from '../navigation/place.ts';
import { NEW_CHAT, shortcutsDialog } from '../navigation/shortcuts.ts';
import { sidebarState } from '../navigation/sidebar-state.ts';
import { Archived } from './archived.tsx';
import { InSidebar } from './in-sidebar.ts';
import { RenameDialog } from './rename-dialog.tsx';
import { SearchResults } from './search-results.tsx';
import { SessionActions } from './session-actions.ts';
import { SessionList } from './session-list.tsx';
import type { UserSessions } from './user-sessions.ts';

/** The user's sessions: a search, the list, and what can be done with each. */
export function Sidebar({ place, sessions }: { place: Place; sessions: UserSessions }) {
  // It shows which session the page is at.
  useSyncExternalStore(place.view.subscribe, place.view.get);
  const { sessions: known = [] } = useSyncExternalStore(sessions.view.subscribe, sessions.view.get);
  const [query, setQuery] = useState('');
  const [renamed, setRenamed] = useState<OpenSession>();
  const sidebar = useRef<HTMLElement>(null);
  const actions = useMemo(() => new SessionActions(place), [place]);
  const inSidebar = useMemo(
    () => ({ sidebar, place, actions, onChosen: () => sidebarState.chosen(), onRename: setRenamed }),
    [place, actions],
  );
  const startAnew = () => {
    sidebarState.chosen();
    place.startAnew();
  };
  return (
    <nav ref={sidebar} className="sidebar" aria-label="Sessions" onKeyDown={moveByArrows}>
      <div className="side-bar">
        <span className="brand">Perdure</span>
        <IconButton label="Keyboard shortcuts" onClick={() => shortcutsDialog.update({ isOpen: true })}>
          <QuestionMarkCircleIcon aria-hidden="true" />
        </IconButton>
        <IconButton label="Hide the sessions" onClick={() => sidebarState.show(false)}>
          <ChevronDoubleLeftIcon aria-hidden="true" />
        </IconButton>
      </div>
      <button type="button" className="new-chat" title={NEW_CHAT.keys} onClick={startAnew}>
        <PlusIcon aria-hidden="true" /> New chat
      </button>
      <search className="side-search">
        <MagnifyingGlassIcon aria-hidden="true" />
        <input
          type="search"
          aria-label="Search sessions"
          placeholder="Search"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
          onKeyDown={(event) => event.key === 'Escape' && query !== '' && (event.stopPropagation(), setQuery(''))}
        />
      </search>
      <div className="side-lists">
        <InSidebar value={inSidebar}>
          {query.trim() === '' ? (
            <>
              <SessionList sessions={sessions} />
              <Archived />
            </>
          ) : (
            <SearchResults query={query.trim()} sessions={known} />
          )}
        </InSidebar>
      </div>
      <RenameDialog session={renamed} actions={actions} onClose={() => setRenamed(undefined)} />
    </nav>
  );
}

/** Up and Down go from session to session, Down also from the field of the search. */
function moveByArrows(event: KeyboardEvent<HTMLElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const { target, currentTarget } = event;
  if (step === undefined || !(target instanceof Element) || !target.matches('.session > a, .side-search input')) return;
  const stops = [...currentTarget.querySelectorAll<HTMLElement>('.side-search input, .session > a')];
  const next = stops[stops.indexOf(target as HTMLElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
