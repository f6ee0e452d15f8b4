import { textOf, type Waiting } from './transcript.ts';

const STATE_WORDS = { sending: 'Not sent yet', queued: 'Queued', refused: 'Not accepted' } as const;

/** Messages that are not being answered yet; each can be taken back. */
export function WaitingList({ waiting, onTakeBack }: { waiting: Waiting[]; onTakeBack: (waiting: Waiting) => void }) {
  if (waiting.length === 0) return null;
  return (
    <ul className="waiting" aria-label="Waiting messages" data-focus-home=".composer textarea">
      {waiting.map((entry) => (
        <li key={entry.message.id} className="message user" data-state={entry.state}>
          <div className="text">{textOf(entry.message)}</div>
          <p className="note">
            {STATE_WORDS[entry.state]}
            {entry.reason !== undefined && `: ${entry.reason}`}{' '}
            <button type="button" className="quiet" onClick={() => onTakeBack(entry)}>
              Take back
            </button>
          </p>
        </li>
      ))}
    </ul>
  );
}
