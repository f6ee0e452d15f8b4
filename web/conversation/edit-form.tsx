import { type KeyboardEvent, useState } from 'react';

interface Props {
  text: string;
  /** Names of the message's files. */
  files: readonly string[];
  onSend: (text: string, withFiles: boolean) => void;
  onDiscard: () => void;
}

/** A sent message that is being changed. Enter sends the change, Escape discards it. */
export function EditForm({ text, files, onSend, onDiscard }: Props) {
  const [draft, setDraft] = useState(text);
  const [withFiles, setWithFiles] = useState(true);
  const canSend = draft.trim() !== '';
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'Escape') onDiscard();
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    if (canSend) onSend(draft, withFiles);
  };
  return (
    <form
      className="edit-form"
      aria-label="Change your message"
      data-focus-home=".composer textarea"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(draft, withFiles);
      }}
    >
      <textarea
        aria-label="Changed message"
        autoFocus
        dir="auto"
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
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
