import { type KeyboardEvent, useSyncExternalStore } from 'react';
import type { Uploads } from '../session/uploads.ts';
import { AttachButton, UploadList } from './attach-button.tsx';

interface Props {
  draft: string;
  /** The files of the message. */
  uploads: Uploads;
  onDraft: (text: string) => void;
  onSend: (text: string) => void;
  /** Set while an answer is in flight. */
  onStop?: () => void;
}

/** The input field. Enter sends, Shift+Enter inserts a new line. */
export function Composer({ draft, uploads, onDraft, onSend, onStop }: Props) {
  const { items } = useSyncExternalStore(uploads.view.subscribe, uploads.view.get);
  const isEmpty = draft.trim() === '' && items.length === 0;
  // A file that failed is tried again or removed, so that no message goes without it unnoticed.
  const isReady = !isEmpty && items.every(({ state }) => state === 'ready');
  const send = () => {
    if (!isReady) return;
    onSend(draft);
    onDraft('');
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      className="composer"
      data-focus-home=".composer textarea"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <UploadList uploads={uploads} />
      <AttachButton uploads={uploads} />
      <textarea
        aria-label="Message"
        placeholder={onStop ? 'Say more…' : 'Say something'}
        rows={1}
        autoFocus
        dir="auto"
        value={draft}
        onChange={(event) => onDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {onStop && (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      )}
      <button type="submit" className="primary" disabled={!isReady}>
        Send
      </button>
    </form>
  );
}
