import { useChat } from '@ai-sdk/react';
import type { UIMessage } from 'ai';
import { type ComponentType, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import { summaryOf } from '../../domain/compaction.ts';
import type { SessionStatus } from '../../domain/runs.ts';
import { useOpened } from '../lib/opened.ts';
import { ChildSession } from '../session/child-session.ts';
import { Answering, ShownSession } from '../session/shown-session.ts';
import type { View } from '../session/view.ts';
import { Summary } from '../transcript/summary.tsx';
import { hasContent, type HeldCall, heldCall, isInFlight } from '../transcript/transcript.ts';

const REDRAW_MS = 100;

const STATE_WORDS: Record<SessionStatus['state'], string> = {
  idle: 'The subagent has answered.',
  busy: 'The subagent works.',
  retrying: 'The subagent tries again.',
  waiting: 'The subagent waits for an answer.',
  error: 'The subagent was stopped by an error.',
};

interface Props {
  /** The session of the subagent. */
  id: string;
  /** The call that has called it waits for it. */
  isRunning: boolean;
  /** Shows a message, with the work of further subagents. */
  Answer: ComponentType<AnswerProps>;
}

interface AnswerProps {
  message: UIMessage;
  isLive: boolean;
  progress?: View['progress'];
  held?: HeldCall | undefined;
}

/** What a subagent does, in a collapsed section below its call. Its questions are answered below the conversation. */
export function ChildWork({ id, isRunning, Answer }: Props) {
  const parent = useContext(ShownSession);
  const section = useOpened(`work of ${id}`);
  return (
    // One of a session's is open at a time: each has a connection while it works.
    <details className="child" name={`work for ${parent}`} {...section}>
      <summary>What the subagent does</summary>
      {section.open && <Followed key={id} id={id} isRunning={isRunning} Answer={Answer} />}
    </details>
  );
}

function Followed({ id, isRunning, Answer }: Props) {
  const [child, setChild] = useState<ChildSession>();
  useEffect(() => {
    const made = new ChildSession(id);
    setChild(made);
    return () => made.close();
  }, [id]);
  useEffect(() => child?.changed(), [child, isRunning]);
  return child === undefined ? null : <Transcript id={id} child={child} Answer={Answer} />;
}

function Transcript({ id, child, Answer }: Pick<Props, 'id' | 'Answer'> & { child: ChildSession }) {
  const { messages } = useChat({ chat: child.chat, throttle: REDRAW_MS });
  const { status, progress, notice } = useSyncExternalStore(child.view.subscribe, child.view.get);
  if (status === undefined) return <p className="note">{notice ?? 'Loading…'}</p>;
  const held = heldCall(messages, status);
  const isWorking = isInFlight(status);
  // What it was asked for is in the call's input.
  const answers = messages.filter((message) => message.role === 'assistant' && hasContent(message));
  return (
    <ShownSession value={id}>
      <Answering value={null}>
        {answers.map((message) => {
          const summary = summaryOf(message.parts);
          if (summary !== undefined) {
            return <Summary key={message.id} message={message} data={summary} session={child} Answer={Answer} />;
          }
          const isLive = isWorking && message === messages.at(-1);
          return (
            <Answer
              key={message.id}
              message={message}
              isLive={isLive}
              progress={isLive ? progress : null}
              held={isLive ? held : undefined}
            />
          );
        })}
        <p className="note">{notice ?? STATE_WORDS[status.state]}</p>
      </Answering>
    </ShownSession>
  );
}
