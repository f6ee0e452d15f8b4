import { AttachedFile } from '../composer/attached-file.tsx';
import { filesOf, isFromTask, isQueued, messageText, type Waiting } from '../transcript/transcript.ts';

const STATE_WORDS = { sending: 'Not sent yet', queued: 'Queued', doubtful: 'Queued', refused: 'Not accepted' } as const;

interface Props {
  waiting: Waiting[];
  /** Ids of those that are being taken back. */
  takingBack: readonly string[];
  /** An error has stopped the queue. */
  isPaused: boolean;
  /** Takes the message back, so that its text can be changed and sent again. */
  onEdit: (waiting: Waiting) => void;
  onTakeBack: (waiting: Waiting) => void;
}

/** Messages that are not being answered yet, in order; each can be taken back, and the user's own ones be changed. */
export function WaitingList({ waiting, takingBack, isPaused, onEdit, onTakeBack }: Props) {
  if (waiting.length === 0) return null;
  const queued = waiting.filter((entry) => isQueued(entry));
  return (
    <>
      {isPaused && queued.length > 0 && (
        <p className="note" role="note">
          After the error the queue waits: it goes on when you retry or send a message.
        </p>
      )}
      <ul className="waiting" aria-label="Waiting messages" data-focus-home=".composer textarea">
        {waiting.map((entry) => (
          <WaitingMessage
            key={entry.message.id}
            entry={entry}
            place={queued.indexOf(entry)}
            isTakenBack={takingBack.includes(entry.message.id)}
            onEdit={onEdit}
            onTakeBack={onTakeBack}
          />
        ))}
      </ul>
    </>
  );
}

interface MessageProps extends Pick<Props, 'onEdit' | 'onTakeBack'> {
  entry: Waiting;
  /** In the queue; -1: it is not there. */
  place: number;
  isTakenBack: boolean;
}

function WaitingMessage({ entry, place, isTakenBack, onEdit, onTakeBack }: MessageProps) {
  const { message, state } = entry;
  return (
    <li className="message user" data-state={state}>
      {messageText(message) !== '' && (
        <div className="text" dir="auto">
          {messageText(message)}
        </div>
      )}
      {filesOf(message).map((part) => (
        <AttachedFile key={part.url} part={part} />
      ))}
      <p className="note">
        {isTakenBack ? `${STATE_WORDS[state]}, being taken back` : wordsOf(entry, place)}{' '}
        {!isFromTask(message) && (
          <button
            type="button"
            className="quiet"
            aria-label="Edit waiting message"
            disabled={isTakenBack}
            onClick={() => onEdit(entry)}
          >
            Edit
          </button>
        )}
        <button type="button" className="quiet" disabled={isTakenBack} onClick={() => onTakeBack(entry)}>
          Take back
        </button>
      </p>
    </li>
  );
}

function wordsOf({ state, reason }: Waiting, place: number): string {
  const words = place > 0 ? `${STATE_WORDS[state]}, number ${place + 1}` : STATE_WORDS[state];
  return reason === undefined ? words : `${words}: ${reason}`;
}
