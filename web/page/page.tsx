import { Tooltip } from '@base-ui/react/tooltip';
import { Bars3Icon } from '@heroicons/react/20/solid';
import { type ReactNode, useCallback, useSyncExternalStore } from 'react';
import { ShowBeside } from '../conversation/beside-button.tsx';
import { Confirmation } from '../design/confirmation.tsx';
import { IconButton } from '../design/icon-button.tsx';
import { SignIn } from '../design/sign-in.tsx';
import { Toasts } from '../design/toasts.tsx';
import type { Columns } from '../navigation/columns.ts';
import type { Place } from '../navigation/place.ts';
import { useShortcuts } from '../navigation/shortcuts.ts';
import { sidebarState } from '../navigation/sidebar-state.ts';
import { PanelButtons, PanelPlace } from '../panels/panels.tsx';
import { PhaseTrack, showsPhases } from '../panels/phase-track.tsx';
import { SidebarPlace } from '../sidebar/sidebar-place.tsx';
import type { UserSessions } from '../sidebar/user-sessions.ts';
import { Beside } from './beside.tsx';
import { Column } from './column.tsx';
import { InitiativeLinks } from './initiative-links.tsx';
import { Missing } from './missing.tsx';
import { ShortcutsDialog } from './shortcuts-dialog.tsx';

interface Props {
  place: Place;
  sessions: UserSessions;
}

/** The page: the user's sessions, and beside them the conversation that is shown. */
export function Page({ place, sessions }: Props) {
  const { columns } = useSyncExternalStore(place.view.subscribe, place.view.get);
  const startAnew = useCallback(() => place.startAnew(), [place]);
  useShortcuts(startAnew);
  return (
    <Tooltip.Provider>
      <SidebarPlace place={place} sessions={sessions} />
      <div className="workspace">
        {columns === null ? (
          <>
            <Header sessions={sessions} title="Conversation not found">
              <SignIn />
            </Header>
            <Missing place={place} />
          </>
        ) : (
          <Workspace key={columns.own.id} columns={columns} place={place} sessions={sessions} />
        )}
      </div>
      <ShortcutsDialog />
      <Confirmation />
      <Toasts />
    </Tooltip.Provider>
  );
}

/** Phases and status at the top, the conversation below, and perhaps another one beside it. */
function Workspace({ columns, place, sessions }: Props & { columns: Columns }) {
  const { own: session } = columns;
  const view = useSyncExternalStore(session.view.subscribe, session.view.get);
  const { beside } = useSyncExternalStore(columns.view.subscribe, columns.view.get);
  const { sessions: known } = useSyncExternalStore(sessions.view.subscribe, sessions.view.get);
  const title = known?.find((each) => place.isAt(each))?.title ?? view.title;
  return (
    <>
      <Header
        sessions={sessions}
        title={title ?? 'New chat'}
        links={
          <>
            <InitiativeLinks joined={view.initiative} />
            <PanelButtons session={session} view={view} />
          </>
        }
      >
        <SignIn />
        {showsPhases(view) && (
          <PhaseTrack view={view} files={session.files} onCommand={(name) => void session.command(name)} />
        )}
      </Header>
      <div className="work">
        <ShowBeside value={(id) => columns.show(id)}>
          <div className="talk">
            <Column session={session} view={view} />
            {beside !== null && <Beside session={beside} onClose={() => columns.close()} />}
          </div>
        </ShowBeside>
        <PanelPlace session={session} view={view} />
      </div>
    </>
  );
}

interface HeaderProps {
  sessions: UserSessions;
  title: string;
  links?: ReactNode;
  children?: ReactNode;
}

function Header({ sessions, title, links, children }: HeaderProps) {
  const { isWide, isBeside } = useSyncExternalStore(sidebarState.view.subscribe, sidebarState.view.get);
  return (
    <header>
      <div className="title-bar">
        {!(isWide && isBeside) && <ShowSessions sessions={sessions} />}
        <h1 title={title}>{title}</h1>
        {links}
      </div>
      {children}
    </header>
  );
}

/** Where the sidebar is hidden, its button also tells that a session waits for the user. */
function ShowSessions({ sessions }: { sessions: UserSessions }) {
  const { sessions: known } = useSyncExternalStore(sessions.view.subscribe, sessions.view.get);
  const waiting = known?.filter(({ waits_for }) => waits_for === 'approval').length ?? 0;
  const more = waiting === 0 ? '' : `, ${waiting === 1 ? '1 waits' : `${waiting} wait`} for you`;
  return (
    <IconButton label={`Show the sessions${more}`} data-waiting={waiting > 0} onClick={() => sidebarState.show(true)}>
      <Bars3Icon aria-hidden="true" />
    </IconButton>
  );
}
