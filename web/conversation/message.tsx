import { isToolUIPart, type UIMessage } from 'ai';
import { lazy, memo, useEffect, useState } from 'react';
import { AttachedFile } from '../composer/attached-file.tsx';
import { durationWords } from '../lib/amount-words.ts';
import { WithFallback } from '../lib/with-fallback.tsx';
import type { View } from '../session/view.ts';
import { ToolCall } from '../tool-calls/tool-call.tsx';
import { type HeldCall, isFromTask } from '../transcript/transcript.ts';

/** Loaded in the background; until then answers are shown as plain text. */
const fetched = import('../markdown/markdown.tsx').then(({ Markdown }) => ({ default: Markdown }));
const Markdown = lazy(() => fetched);

interface MessageProps {
  message: UIMessage;
  isLive: boolean;
  /** Of a tool call in it. */
  progress?: View['progress'];
  /** The tool call of it that the turn waits for. */
  held?: HeldCall | undefined;
}

/** One message, rendered again only if it has changed. */
export const Message = memo(function Message({ message, isLive, progress = null, held }: MessageProps) {
  return (
    <article className={`message ${message.role}`} aria-label={authorOf(message)}>
      {message.parts.map((part, index) => (
        // Parts are only appended, so the index is a stable key.
        <Part
          key={index}
          part={part}
          isLive={isLive}
          progress={progress}
          held={held}
          isUsers={message.role === 'user'}
          isGivenUp={isGivenUp(message.parts, index)}
        />
      ))}
    </article>
  );
});

function authorOf(message: UIMessage): string {
  if (message.role !== 'user') return 'Agent';
  if (!isFromTask(message)) return 'You';
  // In its own session it is given what its caller says, which is no task's result.
  return (message.metadata as { task?: unknown }).task === undefined ? 'Caller' : 'Subagent';
}

interface PartProps {
  part: UIMessage['parts'][number];
  isLive: boolean;
  progress: View['progress'];
  held: HeldCall | undefined;
  /** User text is shown as plain text. */
  isUsers: boolean;
  /** Its attempt was interrupted and another one has started. */
  isGivenUp: boolean;
}

/** True if an interruption follows the part in the same step. */
function isGivenUp(parts: UIMessage['parts'], index: number): boolean {
  const next = parts.slice(index + 1).find(({ type }) => type === 'data-interrupted' || type === 'step-start');
  return next?.type === 'data-interrupted';
}

function Part({ part, isLive, progress, held, isUsers, isGivenUp: givenUp }: PartProps) {
  if (isToolUIPart(part)) {
    const own = progress?.tool_call_id === part.toolCallId ? progress.data : undefined;
    const heldBy = held?.toolCallId === part.toolCallId ? held.by : undefined;
    return <ToolCall part={part} isLive={isLive} heldBy={heldBy} progress={own} Answer={Message} />;
  }
  switch (part.type) {
    case 'text':
      if (part.text === '') return null;
      if (isUsers)
        return (
          <div className="text" dir="auto">
            {part.text}
          </div>
        );
      return (
        <div className={givenUp ? 'given-up' : undefined}>
          <WithFallback
            fallback={
              <div className="text" dir="auto">
                {part.text}
              </div>
            }
          >
            <Markdown text={part.text} isStreaming={isLive && part.state === 'streaming'} />
          </WithFallback>
        </div>
      );
    case 'reasoning':
      if (part.text === '') return null;
      return <Reasoning text={part.text} isOn={isLive && part.state === 'streaming'} ms={msOf(part)} />;
    case 'file':
      return <AttachedFile part={part} />;
    case 'data-interrupted':
      return (
        <p className="interrupted" role="note">
          The answer broke off here. What is above is kept; it begins again below.
        </p>
      );
    default:
      return null;
  }
}

/** How long stored reasoning took, in milliseconds; undefined: the page has not read it. */
function msOf(part: object): number | undefined {
  const { ms } = part as { ms?: unknown };
  return typeof ms === 'number' ? ms : undefined;
}

interface ReasoningProps {
  text: string;
  isOn: boolean;
  ms: number | undefined;
}

function Reasoning({ text, isOn, ms }: ReasoningProps) {
  const [seenMs, setSeenMs] = useState<number>();
  useEffect(() => {
    if (!isOn) return undefined;
    const from = performance.now();
    return () => setSeenMs(performance.now() - from);
  }, [isOn]);
  const took = ms ?? seenMs;
  return (
    <details className="reasoning">
      <summary>{isOn ? 'Thinking…' : took === undefined ? 'Reasoning' : `Thought for ${durationWords(took)}`}</summary>
      <div className="text" dir="auto">
        {text}
      </div>
    </details>
  );
}
