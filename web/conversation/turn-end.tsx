import { sentence } from '../lib/sentence.ts';
import type { TurnEnd, WayOut } from '../transcript/turns.ts';

const WORDS: Record<WayOut, string> = {
  retry: 'Retry',
  model: 'Choose another model',
  edit: 'Edit the message',
  branch: 'Branch without this turn',
  compact: 'Compact the conversation',
};

interface Props {
  end: TurnEnd;
  /** What can be done about it now. */
  ways: readonly WayOut[];
  onWayOut: (way: WayOut) => void;
}

/** The mark below a turn that was stopped or failed, with what the user can do about it. */
export function TurnEndMark({ end, ways, onWayOut }: Props) {
  const words =
    end.state === 'error' ? sentence(end.message ?? 'something went wrong') : 'You stopped the answer here.';
  return (
    <div className="turn-end" data-state={end.state} role="note" data-focus-home=".composer textarea">
      <p>{words}</p>
      {ways.length > 0 && (
        <p className="commands">
          {ways.map((way) => (
            <button key={way} type="button" onClick={() => onWayOut(way)}>
              {WORDS[way]}
            </button>
          ))}
        </p>
      )}
    </div>
  );
}
