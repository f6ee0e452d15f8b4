import { type KeyboardEvent, useState } from 'react';

/** How a message is to be changed. */
export interface Change {
  text: string;
  withFiles: boolean;
}

/** A message that is being changed. */
export interface Editing {
  id: string;
  /** What could not be sent. */
  change: Change | undefined;
}

/** Opens the form of a message, with what could not be sent, or closes it. */
export type OnEdit = (messageId: string | undefined, change?: Change) => void;

interface Props extends Change {
  /** Names of the message's files. */
  files: readonly string[];
  onSend: (change: Change) => void;
  onDiscard: () => void;
}

/** A sent message that is being changed. Enter sends the change, Escape discards it. */
export function EditForm({ files, onSend, onDiscard, ...given }: Props) {
  const [text, setText] = useState(given.text);
  const [withFiles, setWithFiles] = useState(given.withFiles);
  const canSend = text.trim() !== '';
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'Escape') onDiscard();
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    if (canSend) onSend({ text, withFiles });
  };
  return (
    <form
      className="edit-form"
      aria-label="Change your message"
      data-focus-home=".composer textarea"
      onSubmit={(event) => {
        event.preventDefault();
        onSend({ text, withFiles });
      }}
    >
      <textarea
        aria-label="Changed message"
        autoFocus
        dir="auto"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {files.length > 0 && (
        <label className="note">
          <input type="checkbox" checked={withFiles} onChange={(event) => setWithFiles(event.target.checked)} />
          {` With ${files.join(', ')}`}
        </label>
      )}
      <p className="note">What came after it is hidden, and it is answered anew.</p>
      <p className="commands">
        <button type="submit" className="primary" disabled={!canSend}>
          Send change
        </button>
        <button type="button" onClick={onDiscard}>
          Discard change
        </button>
      </p>
    </form>
  );
}
