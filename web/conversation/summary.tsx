import type { UIMessage } from 'ai';
import { useState } from 'react';
import type { CompactionData } from '../../domain/compaction.ts';
import { wordsOf } from '../api/problem.ts';
import type { TabSession } from '../session/tab-session.ts';
import { Message } from './message.tsx';

interface Props {
  message: UIMessage;
  data: CompactionData;
  session: TabSession;
}

/** Stands for turns that were summarized: the summary, and the turns themselves on request. */
export function Summary({ message, data, session }: Props) {
  const [hidden, setHidden] = useState<UIMessage[]>();
  const [notice, setNotice] = useState<string>();
  const show = async () => {
    setNotice(undefined);
    await session.summarized(message.id).then(setHidden, (error: unknown) => setNotice(wordsOf(error)));
  };
  return (
    <details className="summary">
      <summary>
        Summarized {data.turns} earlier {data.turns === 1 ? 'turn' : 'turns'}
      </summary>
      <div className="text" dir="auto">
        {data.summary}
      </div>
      {hidden === undefined ? (
        <button type="button" className="quiet" onClick={() => void show()}>
          Show the summarized messages
        </button>
      ) : (
        hidden.map((each) => <Message key={each.id} message={each} isLive={false} />)
      )}
      {notice !== undefined && <p className="note">{notice}</p>}
    </details>
  );
}
