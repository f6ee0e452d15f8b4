import type { UIMessage } from 'ai';
import { type ComponentType, useState } from 'react';
import { type CompactionData, summaryOf } from '../../domain/compaction.ts';
import { wordsOf } from '../api/problem.ts';

interface InSession {
  session: {
    /** As `readSummarized`. */
    summarized(summaryId: string, onRead: (read: number) => void): Promise<UIMessage[]>;
  };
  /** Shows a message. */
  Answer: ComponentType<{ message: UIMessage; isLive: boolean }>;
}

interface Props extends InSession {
  message: UIMessage;
  data: CompactionData;
}

/** Stands for all turns before it: the summary, and the turns themselves on request. */
export function Summary({ message, data, ...inSession }: Props) {
  const { id } = message;
  return (
    <details className="summary" data-focus-home={`[data-summary="${CSS.escape(id)}"]`}>
      <summary data-summary={id}>
        Summarized {data.turns} earlier {data.turns === 1 ? 'turn' : 'turns'}
      </summary>
      <div className="text" dir="auto">
        {data.summary}
      </div>
      <Summarized id={id} {...inSession} />
    </details>
  );
}

/** What a summary stands for: messages, before them perhaps an earlier summary. */
function Summarized({ id, ...inSession }: InSession & { id: string }) {
  const [messages, setMessages] = useState<UIMessage[]>();
  /** How many are read so far; undefined: none is being read. */
  const [read, setRead] = useState<number>();
  const [notice, setNotice] = useState<string>();
  const show = async () => {
    setNotice(undefined);
    setRead(0);
    await inSession.session.summarized(id, setRead).then(setMessages, (error: unknown) => setNotice(wordsOf(error)));
    setRead(undefined);
  };
  if (messages?.length === 0) {
    return <p className="note">The messages are in the conversation that this one was made from.</p>;
  }
  if (messages !== undefined) return messages.map((each) => <Hidden key={each.id} message={each} {...inSession} />);
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

function Hidden({ message, ...inSession }: InSession & { message: UIMessage }) {
  const data = summaryOf(message.parts);
  if (data !== undefined) return <Summary message={message} data={data} {...inSession} />;
  return <inSession.Answer message={message} isLive={false} />;
}
