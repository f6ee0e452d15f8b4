import { createContext, type RefObject } from 'react';
import type { OpenSession } from '../../domain/rendezvous.ts';
import type { Place } from '../navigation/place.ts';
import type { SessionActions } from './session-actions.ts';

interface Surroundings {
  /** The sidebar, of which its menus are a part, also for the drawer's focus. */
  sidebar: RefObject<HTMLElement | null>;
  place: Place;
  actions: SessionActions;
  /** The user has chosen a session. */
  onChosen: () => void;
  onRename: (session: OpenSession) => void;
}

/** What every row of the sidebar needs. */
export const InSidebar = createContext<Surroundings>(undefined as never);
