import type { UIMessage } from 'ai';
import { useState } from 'react';
import { type CompactionData, summaryOf } from '../../domain/compaction.ts';
import { wordsOf } from '../api/problem.ts';
import type { TabSession } from '../session/tab-session.ts';
import { Message } from './message.tsx';

interface Props {
  message: UIMessage;
  data: CompactionData;
  session: TabSession;
}

/** Stands for all turns before it: the summary, and the turns themselves on request. */
export function Summary({ message, data, session }: Props) {
  const { id } = message;
  return (
    <details className="summary" data-focus-home={`[data-summary="${CSS.escape(id)}"]`}>
      <summary data-summary={id}>
        Summarized {data.turns} earlier {data.turns === 1 ? 'turn' : 'turns'}
      </summary>
      <div className="text" dir="auto">
        {data.summary}
      </div>
      <Summarized id={id} session={session} />
    </details>
  );
}

/** What a summary stands for: messages, before them perhaps an earlier summary. */
function Summarized({ id, session }: { id: string; session: TabSession }) {
  const [messages, setMessages] = useState<UIMessage[]>();
  /** How many are read so far; undefined: none is being read. */
  const [read, setRead] = useState<number>();
  const [notice, setNotice] = useState<string>();
  const show = async () => {
    setNotice(undefined);
    setRead(0);
    await session.summarized(id, setRead).then(setMessages, (error: unknown) => setNotice(wordsOf(error)));
    setRead(undefined);
  };
  if (messages?.length === 0) {
    return <p className="note">The messages are in the conversation that this one was made from.</p>;
  }
  if (messages !== undefined) return messages.map((each) => <Hidden key={each.id} message={each} session={session} />);
  if (read !== undefined) return <p className="note">Loading the messages{read > 0 && `, ${read} so far`}…</p>;
  return (
    <>
      <button type="button" className="quiet" onClick={() => void show()}>
        Show the summarized messages
      </button>
      {notice !== undefined && <p className="note">{notice}</p>}
    </>
  );
}

function Hidden({ message, session }: { message: UIMessage; session: TabSession }) {
  const data = summaryOf(message.parts);
  if (data !== undefined) return <Summary message={message} data={data} session={session} />;
  return <Message message={message} isLive={false} />;
}
