import type { KeyboardEvent } from 'react';

interface Props {
  draft: string;
  onDraft: (text: string) => void;
  onSend: (text: string) => void;
  /** Set while an answer is in flight. */
  onStop?: () => void;
}

/** The input field. Enter sends, Shift+Enter inserts a new line. */
export function Composer({ draft, onDraft, onSend, onStop }: Props) {
  const send = () => {
    if (draft.trim() === '') return;
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
      <textarea
        aria-label="Message"
        placeholder={onStop ? 'Say more…' : 'Say something'}
        rows={1}
        autoFocus
        value={draft}
        onChange={(event) => onDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {onStop && (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      )}
      <button type="submit" className="primary" disabled={draft.trim() === ''}>
        Send
      </button>
    </form>
  );
}
