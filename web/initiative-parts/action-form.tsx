import { generateId } from 'ai';
import { type KeyboardEvent, useId, useRef, useState } from 'react';
import { isRefusal, wordsOf } from '../api/problem.ts';
import { Notice } from './entry.tsx';
import type { InitiativeApi, InitiativeAction } from './initiative-api.ts';

/** The most characters of a text of an initiative. */
const MOST_TEXT = 10_000;

interface Field {
  label: string;
  /** Most characters; 10,000 unless given. */
  most?: number;
  isOptional?: boolean;
}

interface Props {
  api: InitiativeApi;
  name: string;
  fields: readonly Field[];
  /** The label of the button that sends. */
  action: string;
  /** Why it cannot be sent any more. */
  late?: string | undefined;
  command: (texts: readonly string[]) => InitiativeAction;
  onDone: () => void;
  onDiscard: () => void;
}

/**
 * The texts of a command. Sent again after a lost answer it has the same key, so that it is carried out once; with other texts it is
 * another command. Enter begins a line, Control+Enter sends, Escape discards.
 */
export function ActionForm({ api, name, fields, action, late, command, onDone, onDiscard }: Props) {
  const [texts, setTexts] = useState(() => fields.map(() => ''));
  const [notice, setNotice] = useState<string>();
  const [isSending, setSending] = useState(false);
  const key = useRef(generateId());
  const id = useId();
  const isComplete = fields.every(({ isOptional = false }, at) => isOptional || texts[at]?.trim() !== '');
  const reason = late ?? notice;
  const canSend = isComplete && !isSending && late === undefined;
  const send = async () => {
    if (!canSend) return;
    setSending(true);
    setNotice(undefined);
    try {
      await api.command(command(texts.map((text) => text.trim())), key.current);
      onDone();
    } catch (error) {
      setNotice(wordsOf(error));
      setSending(false);
      if (isRefusal(error)) key.current = generateId();
    }
  };
  const change = (at: number, text: string) => {
    setTexts(texts.with(at, text));
    key.current = generateId();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'Escape') onDiscard();
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
  };
  return (
    <form
      className="action-form"
      aria-label={name}
      onKeyDown={onKeyDown}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {fields.map(({ label, most = MOST_TEXT }, at) => (
        <div key={label}>
          <label htmlFor={`${id}-${at}`}>{label}</label>
          <textarea
            id={`${id}-${at}`}
            dir="auto"
            autoFocus={at === 0}
            maxLength={most}
            value={texts[at]}
            readOnly={isSending}
            onChange={({ target }) => change(at, target.value)}
          />
        </div>
      ))}
      {reason !== undefined && <Notice text={reason} />}
      <p className="commands">
        <button type="submit" className="primary" disabled={!canSend}>
          {action}
        </button>
        <button type="button" onClick={onDiscard}>
          Discard
        </button>
      </p>
    </form>
  );
}
