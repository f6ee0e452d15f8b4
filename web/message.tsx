import { isToolUIPart, type UIMessage } from 'ai';
import { lazy, memo, Suspense } from 'react';
import { ToolCall } from './tool-call.tsx';

/** Loaded in the background; until then answers are shown as plain text. */
const fetched = import('./markdown.tsx').then(({ Markdown }) => ({ default: Markdown }));
const Markdown = lazy(() => fetched);

/** One message, rendered again only if it has changed. */
export const Message = memo(function Message({ message, isLive }: { message: UIMessage; isLive: boolean }) {
  const author = message.role === 'user' ? 'You' : 'Agent';
  return (
    <article className={`message ${message.role}`} aria-label={author}>
      {message.parts.map((part, index) => (
        // Parts are only appended, so the index is a stable key.
        <Part
          key={index}
          part={part}
          isLive={isLive}
          isUsers={message.role === 'user'}
          isGivenUp={isGivenUp(message.parts, index)}
        />
      ))}
    </article>
  );
});

interface PartProps {
  part: UIMessage['parts'][number];
  isLive: boolean;
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

function Part({ part, isLive, isUsers, isGivenUp: givenUp }: PartProps) {
  if (isToolUIPart(part)) return <ToolCall part={part} isLive={isLive} />;
  switch (part.type) {
    case 'text':
      if (part.text === '') return null;
      if (isUsers) return <div className="text">{part.text}</div>;
      return (
        <div className={givenUp ? 'given-up' : undefined}>
          <Suspense fallback={<div className="text">{part.text}</div>}>
            <Markdown text={part.text} isStreaming={isLive && part.state === 'streaming'} />
          </Suspense>
        </div>
      );
    case 'reasoning':
      return part.text === '' ? null : <Reasoning text={part.text} isOn={isLive && part.state === 'streaming'} />;
    case 'file':
      return <p className="note">Attached: {part.filename ?? part.mediaType}</p>;
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

function Reasoning({ text, isOn }: { text: string; isOn: boolean }) {
  return (
    <details className="reasoning">
      <summary>{isOn ? 'Thinking…' : 'Reasoning'}</summary>
      <div className="text">{text}</div>
    </details>
  );
}
