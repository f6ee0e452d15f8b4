import { ArrowPathIcon } from '@heroicons/react/20/solid';
import { useSyncExternalStore } from 'react';
import { IconButton } from '../design/icon-button.tsx';
import type { TabSession } from '../session/tab-session.ts';

interface Props {
  session: TabSession;
}

/**
 * The built site. It is untrusted: its sandboxed frame has no origin, so it can neither read our data nor call the
 * server as the user.
 */
export function Preview({ session: { files } }: Props) {
  const { preview, notice } = useSyncExternalStore(files.view.subscribe, files.view.get);
  return (
    <div className="preview">
      {notice !== undefined && (
        <p className="note" role="alert">
          {notice}
        </p>
      )}
      {/* A new element for each URL: changing the URL of one frame would add entries to the tab's history. */}
      {preview !== null && (
        <iframe key={preview.url} src={preview.url} sandbox="allow-scripts" title="The site that was built" />
      )}
      {preview !== null && !preview.isAtRoot && (
        <p className="note">
          Addresses that begin with a slash, such as <code>/style.css</code>, lead nowhere in this preview.
        </p>
      )}
    </div>
  );
}

/** Loads the site again. */
export function PreviewCommands({ session: { files } }: Props) {
  return (
    <IconButton label="Reload" onClick={() => void files.refresh({ again: true })}>
      <ArrowPathIcon aria-hidden="true" />
    </IconButton>
  );
}
