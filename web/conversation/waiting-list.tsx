import { AttachedFile } from '../composer/attached-file.tsx';
import { filesOf, isFromTask, isQueued, messageText, type Waiting } from '../transcript/transcript.ts';

const STATE_WORDS = { sending: 'Not sent yet', queued: 'Queued', doubtful: 'Queued', refused: 'Not accepted' } as const;

interface Props {
  waiting: Waiting[];
  /** An error has stopped the queue. */
  isPaused: boolean;
  /** Takes the message back, so that its text can be changed and sent again. */
  onEdit: (waiting: Waiting) => void;
  onTakeBack: (waiting: Waiting) => void;
}

/** Messages that are not being answered yet, in order; each can be taken back, and the user's own ones be changed. */
export function WaitingList({ waiting, isPaused, onEdit, onTakeBack }: Props) {
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
          <li key={entry.message.id} className="message user" data-state={entry.state}>
            {messageText(entry.message) !== '' && (
              <div className="text" dir="auto">
                {messageText(entry.message)}
              </div>
            )}
            {filesOf(entry.message).map((part) => (
              <AttachedFile key={part.url} part={part} />
            ))}
            <p className="note">
              {wordsOf(entry, queued.indexOf(entry))}{' '}
              {!isFromTask(entry.message) && (
                <button type="button" className="quiet" aria-label="Edit waiting message" onClick={() => onEdit(entry)}>
                  Edit
                </button>
              )}
              <button type="button" className="quiet" onClick={() => onTakeBack(entry)}>
                Take back
              </button>
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}

function wordsOf({ state, reason }: Waiting, place: number): string {
  const words = place > 0 ? `${STATE_WORDS[state]}, number ${place + 1}` : STATE_WORDS[state];
  return reason === undefined ? words : `${words}: ${reason}`;
}
