import { useState } from 'react';
import type { ConsolePast } from '../../wire/console.ts';
import { SessionApi } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { consoleAddress, ConsoleLink } from '../console-parts/console-link.tsx';
import { Fact } from '../console-parts/details.tsx';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import { sessionPath, useConsole } from '../console-parts/use-console.ts';
import { timeWords } from '../lib/amount-words.ts';

type PastMessage = NonNullable<ConsolePast['messages']>[number];

const WHY = {
  unrewind: 'A rewind from before this event was undone later, so it cannot be told which messages were visible.',
  compaction:
    'Going back has undone a summary from before this event, so it cannot be told which messages were visible.',
};

/**
 * A session as it stood after an event: only what can be told exactly.
 * @param mayBranch a branch can be opened: the session is the reader's own, and no child
 */
export function PastSession({ id, seq, mayBranch }: { id: string; seq: string; mayBranch: boolean }) {
  const past = useConsole<ConsolePast>(`${sessionPath(id)}/past/${encodeURIComponent(seq)}?limit=200`);
  const { data } = past;
  const number = Number(seq);
  return (
    <section aria-labelledby="past">
      <h2 id="past">As it stood after event {seq}</h2>
      <nav aria-label="Other events">
        {number > 1 && <a href={consoleAddress({ session: id, after: String(number - 1) })}>Event before</a>}
        <a href={consoleAddress({ session: id, after: String(number + 1) })}>Next event</a>
      </nav>
      <ReadingNote of={past} what="the session as it stood" />
      {data && (
        <>
          <dl className="facts">
            <Fact name="Event">{data.kind}</Fact>
            <Fact name="Time">{timeWords(data.at)}</Fact>
            <Fact name="Phase">{data.phase}</Fact>
            {data.project_id !== null && <Fact name="Project">{data.project_id}</Fact>}
          </dl>
          <h3>State</h3>
          <pre tabIndex={0}>{JSON.stringify(data.state, null, 2)}</pre>
          <h3>Transcript</h3>
          {data.unknown !== null && <p>{WHY[data.unknown]}</p>}
          {data.more && <p className="faint">There were earlier messages.</p>}
          {data.messages?.length === 0 && <p className="faint">Nothing was said yet.</p>}
          <ol className="turns">
            {data.messages?.map((message) => (
              <li key={message.id}>
                <Message message={message} />
              </li>
            ))}
          </ol>
          {mayBranch && data.messages !== null && <Branch id={id} from={data.messages.at(-1)?.id} />}
        </>
      )}
    </section>
  );
}

function Message({ message }: { message: PastMessage }) {
  return (
    <>
      <p className="faint">
        {message.role} · {timeWords(message.created_at)}
      </p>
      {message.parts.map((part, at) => (
        <Part key={at} part={part} />
      ))}
    </>
  );
}

function Part({ part: { type, data } }: { part: PastMessage['parts'][number] }) {
  if (type === 'step-start') return null;
  if (data === null) return <p className="faint">{type}: written or changed later</p>;
  const { text } = data as { text?: unknown };
  if ((type === 'text' || type === 'reasoning') && typeof text === 'string') {
    return (
      <p className="said" dir="auto">
        {text}
      </p>
    );
  }
  return (
    <details>
      <summary>{type}</summary>
      <pre tabIndex={0}>{JSON.stringify(data, null, 2)}</pre>
    </details>
  );
}

/** Opens a new session with the messages up to one of them. */
function Branch({ id, from }: { id: string; from: string | undefined }) {
  const [made, setMade] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const [isWaiting, setWaiting] = useState(false);
  if (from === undefined) return null;
  const branch = () => {
    setWaiting(true);
    new SessionApi(id)
      .branch(from)
      .then(
        ({ session }) => setMade(session.session_id),
        (error: unknown) => setProblem(wordsOf(error)),
      )
      .finally(() => setWaiting(false));
  };
  return (
    <div role="status">
      {made === undefined ? (
        <button type="button" onClick={branch} disabled={isWaiting}>
          Branch from here
        </button>
      ) : (
        <p>
          Opened <ConsoleLink id={made} />
        </p>
      )}
      {problem !== undefined && <p className="problem">{problem}</p>}
    </div>
  );
}
