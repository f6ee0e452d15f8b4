import { Dialog } from '@base-ui/react/dialog';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import type { OpenSession } from '../../domain/rendezvous.ts';
import type { SessionActions } from './session-actions.ts';

/** The server takes titles of at most this many characters. */
const MAX_TITLE = 200;

/** Asks for the title of a session. It stays open if the title could not be stored. */
export function RenameDialog(props: {
  session: OpenSession | undefined;
  actions: SessionActions;
  onClose: () => void;
}) {
  const { session, actions, onClose } = props;
  return (
    <Dialog.Root open={session !== undefined} onOpenChange={(open) => open || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title className="dialog-title">Rename the session</Dialog.Title>
          {session && <Form key={session.session_id} session={session} actions={actions} onClose={onClose} />}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Form({ session, actions, onClose }: { session: OpenSession; actions: SessionActions; onClose: () => void }) {
  const [title, setTitle] = useState(session.title ?? '');
  const [isBusy, setBusy] = useState(false);
  const isGone = useRef(false);
  useEffect(() => {
    isGone.current = false;
    return () => void (isGone.current = true);
  }, []);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    const isDone = await actions.rename(session, title);
    // Cancelled meanwhile: the dialog may be another one.
    if (isGone.current) return;
    if (isDone) onClose();
    else setBusy(false);
  };
  return (
    <form className="rename" onSubmit={(event) => void save(event)}>
      <label htmlFor="session-title">Title</label>
      <input
        id="session-title"
        value={title}
        maxLength={MAX_TITLE}
        onChange={(event) => setTitle(event.target.value)}
        onFocus={(event) => event.target.select()}
      />
      <p className="note">Left empty, it is the first line of the first message.</p>
      <div className="dialog-buttons">
        <Dialog.Close>Cancel</Dialog.Close>
        <button type="submit" className="primary" disabled={isBusy}>
          Save
        </button>
      </div>
    </form>
  );
}
