import { Menu } from '@base-ui/react/menu';
import {
  ArchiveBoxArrowDownIcon,
  ArchiveBoxIcon,
  ArrowTopRightOnSquareIcon,
  ArrowUturnLeftIcon,
  EllipsisHorizontalIcon,
  LinkIcon,
  PencilSquareIcon,
  StopIcon,
  TrashIcon,
} from '@heroicons/react/20/solid';
import { type MouseEvent, type ReactNode, useContext } from 'react';
import { nextPhase } from '../../domain/phases.ts';
import type { OpenSession } from '../../domain/rendezvous.ts';
import { IconButton } from '../design/icon-button.tsx';
import { PHASE_WORDS } from '../panels/phase-track.tsx';
import { sessionAddress } from '../session/tab.ts';
import { isInFlight } from '../transcript/transcript.ts';
import { InSidebar } from './in-sidebar.ts';
import { nameOf } from './session-actions.ts';

const STATE_WORDS: Record<OpenSession['state'], string> = {
  idle: '',
  busy: 'working',
  retrying: 'trying again',
  waiting: 'waits for you',
  error: 'stopped by an error',
};

function stateWords({ state, waits_for }: OpenSession): string {
  return waits_for === 'output' ? 'waits for another page' : STATE_WORDS[state];
}

/** A session with its state, what can be done with it, and its branches below it. */
export function SessionRow({ session, children }: { session: OpenSession; children?: ReactNode }) {
  const { place, actions } = useContext(InSidebar);
  const name = nameOf(session);
  return (
    <li data-focus-home=".side-search input">
      <div className="session" data-state={session.state} data-shown={place.isAt(session)}>
        <SessionLink session={session}>
          <span className="name">{name}</span>
          <State session={session} />
        </SessionLink>
        {isInFlight(session) && (
          <IconButton className="stop" label={`Stop: ${name}`} onClick={() => void actions.stop(session)}>
            <StopIcon aria-hidden="true" />
          </IconButton>
        )}
        <RowMenu session={session} />
      </div>
      {children}
    </li>
  );
}

/** A link that shows a session in this tab, at a message of it if given; with a key pressed, the browser opens another tab as always. */
export function SessionLink(props: { session: OpenSession; messageId?: string | undefined; children: ReactNode }) {
  const { session, messageId, children } = props;
  const { place, onChosen } = useContext(InSidebar);
  const address = place.addressOf(session) + (messageId === undefined ? '' : `#${encodeURIComponent(messageId)}`);
  const onClick = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    onChosen();
    if (!place.isAt(session)) place.go(address);
    else if (messageId !== undefined) place.point(address);
  };
  return (
    <a href={address} aria-current={place.isAt(session) ? 'page' : undefined} onClick={onClick}>
      {children}
    </a>
  );
}

/** The state, and the phase unless it is the first. */
function State({ session }: { session: OpenSession }) {
  const { phase } = session;
  const words = [phase === 'chatting' ? '' : PHASE_WORDS[phase], stateWords(session)].filter((each) => each !== '');
  if (words.length === 0) return null;
  return <span className="state">{words.join(', ')}</span>;
}

function RowMenu({ session }: { session: OpenSession }) {
  const { sidebar, actions, onRename } = useContext(InSidebar);
  const name = nameOf(session);
  return (
    <Menu.Root>
      <Menu.Trigger className="icon-button more" aria-label={`More: ${name}`}>
        <EllipsisHorizontalIcon aria-hidden="true" />
      </Menu.Trigger>
      <Menu.Portal container={sidebar}>
        <Menu.Positioner className="floating" align="end" sideOffset={4}>
          <Menu.Popup className="menu">
            <Item icon={<PencilSquareIcon />} label="Rename" onClick={() => onRename(session)} />
            <Menu.LinkItem
              className="menu-item"
              href={sessionAddress(session.session_id)}
              target="_blank"
              // `opener` copies this tab's sessionStorage, with the token, to the new tab.
              rel="opener"
              closeOnClick
            >
              <ArrowTopRightOnSquareIcon aria-hidden="true" /> Open in another tab
            </Menu.LinkItem>
            <Item icon={<LinkIcon />} label="Copy link" onClick={() => void actions.copyLink(session)} />
            {nextPhase(session.phase, 'cancel') !== undefined && (
              <Item
                icon={<ArrowUturnLeftIcon />}
                label="Cancel build"
                onClick={() => void actions.cancelBuild(session)}
              />
            )}
            <Item icon={<ArchiveBoxIcon />} label="Archive" onClick={() => void actions.archive(session)} />
            <Menu.Separator className="menu-line" />
            <Item icon={<TrashIcon />} label="Delete" isDanger onClick={() => void actions.erase(session)} />
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

function Item(props: { icon: ReactNode; label: string; isDanger?: boolean; onClick: () => void }) {
  const { icon, label, isDanger = false, onClick } = props;
  return (
    <Menu.Item className={`menu-item ${isDanger ? 'danger' : ''}`} onClick={onClick}>
      <span className="menu-icon" aria-hidden="true">
        {icon}
      </span>{' '}
      {label}
    </Menu.Item>
  );
}

/** An archived session. */
export function ArchivedRow({ session }: { session: OpenSession }) {
  const { actions } = useContext(InSidebar);
  const name = nameOf(session);
  return (
    <li data-focus-home=".archived summary">
      <div className="session">
        <SessionLink session={session}>
          <span className="name">{name}</span>
        </SessionLink>
        <IconButton label={`Put back: ${name}`} onClick={() => void actions.archive(session, false)}>
          <ArchiveBoxArrowDownIcon aria-hidden="true" />
        </IconButton>
        <IconButton label={`Delete: ${name}`} onClick={() => void actions.erase(session)}>
          <TrashIcon aria-hidden="true" />
        </IconButton>
      </div>
    </li>
  );
}
