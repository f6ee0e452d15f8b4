import { Dialog } from '@base-ui/react/dialog';
import { useSyncExternalStore } from 'react';
import type { Place } from '../navigation/place.ts';
import { searchField, sidebarState } from '../navigation/sidebar-state.ts';
import { Sidebar } from './sidebar.tsx';
import type { UserSessions } from './user-sessions.ts';

/** The sidebar beside the conversation, or in a drawer where there is no room for it. */
export function SidebarPlace({ place, sessions }: { place: Place; sessions: UserSessions }) {
  const { isWide, isBeside, isDrawerOpen } = useSyncExternalStore(sidebarState.view.subscribe, sidebarState.view.get);
  if (isWide) return isBeside ? <Sidebar place={place} sessions={sessions} /> : null;
  // After a touch, a focused field would open the on-screen keyboard.
  const initialFocus = () => matchMedia('(pointer: coarse)').matches || searchField();
  return (
    <Dialog.Root open={isDrawerOpen} onOpenChange={(open) => sidebarState.show(open)}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="drawer" aria-label="Sessions" initialFocus={initialFocus}>
          <Sidebar place={place} sessions={sessions} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
