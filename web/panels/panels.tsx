import { Dialog } from '@base-ui/react/dialog';
import {
  CheckCircleIcon,
  CircleStackIcon,
  FolderIcon,
  MapIcon,
  ShieldCheckIcon,
  WindowIcon,
  XMarkIcon,
} from '@heroicons/react/20/solid';
import { type ComponentType, type CSSProperties, lazy, Suspense, useRef, useSyncExternalStore } from 'react';
import { IconButton } from '../design/icon-button.tsx';
import type { TabSession } from '../session/tab-session.ts';
import type { View } from '../session/view.ts';
import { FilesPanel } from './files-panel.tsx';
import { type PanelName, PANELS, panelState } from './panel-state.ts';
import { PermissionsPanel } from './permissions-panel.tsx';
import { Preview, PreviewCommands } from './preview.tsx';
import { Separator } from './separator.tsx';
import { StatePanel } from './state-panel.tsx';
import { TodosPanel } from './todos-panel.tsx';

interface Props {
  session: TabSession;
  view: View;
}

interface Panel {
  label: string;
  Icon: ComponentType<{ 'aria-hidden': 'true' }>;
  Content: ComponentType<Props>;
  /** Beside the button that closes it. */
  Commands?: ComponentType<Props>;
}

/** The server is away, or has another version of the page by now. An error would take the whole page away. */
const NotLoaded = () => (
  <p className="note" role="alert">
    The board could not be loaded. Reload the page.
  </p>
);
/** Its code is loaded when it is opened. */
const BoardPanel = lazy(() =>
  import('../initiatives/board-panel.tsx').then(
    (loaded) => ({ default: loaded.BoardPanel }),
    () => ({ default: NotLoaded }),
  ),
);

const PANEL: Record<PanelName, Panel> = {
  preview: { label: 'Preview', Icon: WindowIcon, Content: Preview, Commands: PreviewCommands },
  files: { label: 'Files', Icon: FolderIcon, Content: FilesPanel },
  todos: { label: 'Todos', Icon: CheckCircleIcon, Content: TodosPanel },
  state: { label: 'State', Icon: CircleStackIcon, Content: StatePanel },
  permissions: { label: 'Permissions', Icon: ShieldCheckIcon, Content: PermissionsPanel },
  board: { label: 'Board of the initiative', Icon: MapIcon, Content: BoardPanel },
};

/** The panels that the session has something for, and the one that is shown. */
function usePanels({ session, view }: Props) {
  const { isWide, chosen, covering, share } = useSyncExternalStore(panelState.view.subscribe, panelState.view.get);
  const { preview } = useSyncExternalStore(session.files.view.subscribe, session.files.view.get);
  const isEmpty: Partial<Record<PanelName, boolean>> = { preview: preview === null, board: view.initiative === null };
  const offered = PANELS.filter((name) => isEmpty[name] !== true);
  // A site that was built is worth seeing, unless the user has decided otherwise.
  const asked = isWide ? (chosen === undefined ? 'preview' : chosen) : covering;
  const shown = offered.find((name) => name === asked) ?? null;
  return { offered, shown, isWide, share };
}

/** The buttons that open the panels. */
export function PanelButtons(props: Props) {
  const { offered, shown } = usePanels(props);
  return (
    <div className="panel-buttons" role="group" aria-label="Panels">
      {offered.map((name) => {
        const { label, Icon } = PANEL[name];
        return (
          <IconButton
            key={name}
            label={label}
            data-panel={name}
            aria-expanded={name === shown}
            onClick={() => panelState.show(name === shown ? null : name)}
          >
            <Icon aria-hidden="true" />
          </IconButton>
        );
      })}
    </div>
  );
}

/** The panel beside the conversation; where there is no room, it covers the conversation. */
export function PanelPlace(props: Props) {
  const { shown, isWide, share } = usePanels(props);
  const cover = useRef<HTMLDivElement>(null);
  if (!isWide)
    return (
      <Dialog.Root open={shown !== null} onOpenChange={(open) => open || panelState.show(null)}>
        <Dialog.Portal>
          {shown !== null && (
            <Dialog.Popup ref={cover} className="panel covering" aria-label={PANEL[shown].label} initialFocus={cover}>
              <Opened {...props} name={shown} />
            </Dialog.Popup>
          )}
        </Dialog.Portal>
      </Dialog.Root>
    );
  if (shown === null) return null;
  return (
    <section
      id="panel"
      className="panel"
      aria-label={PANEL[shown].label}
      data-focus-home={`.panel-buttons [data-panel=${shown}]`}
      style={{ '--panel-share': `${share}%` } as CSSProperties}
    >
      <Separator share={share} />
      <Opened {...props} name={shown} />
    </section>
  );
}

function Opened({ name, ...props }: Props & { name: PanelName }) {
  const { label, Content, Commands } = PANEL[name];
  return (
    <>
      <div className="panel-bar">
        <h2>{label}</h2>
        {Commands && <Commands {...props} />}
        <IconButton label={`Close: ${label}`} onClick={() => panelState.show(null)}>
          <XMarkIcon aria-hidden="true" />
        </IconButton>
      </div>
      {/* Another session has a panel of its own. */}
      <Suspense key={props.session.id} fallback={<p className="note">Loading…</p>}>
        <Content {...props} />
      </Suspense>
    </>
  );
}
